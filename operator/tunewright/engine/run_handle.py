"""One live run: its ports, and what is remembered between steps only to save work.

Everything here can be rebuilt from the ledger; losing it costs time, never a trial. Made by the controller's wiring
and by the command line.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tunewright.errors import LedgerError
from tunewright.planner.records import Advice, Header, Record, Round
from tunewright.planner.settings import PlannerSettings
from tunewright.planner.snapshot import Snapshot
from tunewright.planner.state import RunState, fold
from tunewright.ports import Advisor, Clock, Ledger, Trials
from tunewright.search.space import Space, build_space

Decided = tuple[Round | None, Mapping[str, Any]]
"""What was decided, if anything, and what an advisor that is asked is told."""


@dataclass
class RunHandle:
    """The ports of one run and its caches. One step at a time: callers never overlap steps of one handle."""

    ledger: Ledger
    trials: Trials
    clock: Clock
    advisor: Advisor | None = None
    trial_deadline_seconds: float = 600.0
    state: RunState = field(default_factory=RunState)
    asked: dict[int, asyncio.Task[Advice]] = field(default_factory=dict)
    """Calls to the advisor that this process made, by round. A round that is asked but not here was lost."""
    built_space: Space | None = None
    """The search space, when somebody has it already."""
    on_decision: Callable[[], None] | None = None
    """Who wants to be told when a decision is made, and to call `step` again then, instead of waiting for it."""
    deciding: asyncio.Task[Decided] | None = None
    """A decision under way or not written down yet: until then nothing else happens to the run."""
    _written: int = 0
    """Records since the ledger was read."""
    _rested: tuple[int, PlannerSettings] | None = None
    """After which of them, and with which settings, there was nothing to decide."""
    _active_seconds: float = 0.0
    _counted_at: float | None = None

    async def read(self) -> Header | None:
        """Read the ledger and return its header, if there is one. Raises `LedgerError` when it cannot be read."""
        self.state = fold(await self.ledger.read())
        self._rested = None
        self._active_seconds = self.state.elapsed_seconds
        return self.state.header

    async def open(self, header: Header) -> None:
        """Read the ledger, or start it with `header`. This handle is its only writer from then on.

        A run keeps the problem and the settings that it started with: those of `header` count for a new run only.
        Raises `LedgerError` when the ledger belongs to another run.
        """
        recorded = await self.read()
        if recorded is None:
            await self.append(header)
        elif (recorded.run_uid, recorded.simulated) != (header.run_uid, header.simulated):
            raise LedgerError("the ledger belongs to another run: start a new one under another name")
        elif (recorded.problem, recorded.settings) != (header.problem, header.settings):
            self.built_space = None  # it was made for what is asked now, not for what the run started with

    def count_time(self, *, active: bool) -> None:
        """Count the time since the last call as the run's own, unless it was suspended or waiting for nodes."""
        now = self.clock.seconds()
        if active and self._counted_at is not None:
            self._active_seconds += max(0.0, now - self._counted_at)
        self._counted_at = now

    async def append(self, *records: Record) -> None:
        """Write records durably, then fold them."""
        await self.ledger.append(records)
        self._written += len(records)
        fold(records, self.state)

    @property
    def is_deciding(self) -> bool:
        """Whether a decision is under way."""
        return self.deciding is not None and not self.deciding.done()

    @property
    def rests(self) -> bool:
        """Whether nothing has happened since there was nothing to decide, and no time that passes changes that."""
        return self._rested == (self._written, self.settings) and self.settings.budget.max_duration_seconds is None

    def rest(self) -> None:
        """There is nothing to decide as things are."""
        self._rested = self._written, self.settings

    @property
    def settings(self) -> PlannerSettings:
        """Those in force: the header's, or the latest that were recorded."""
        return self.state.settings or self.header.settings

    @property
    def header(self) -> Header:
        """The first line of the ledger."""
        if self.state.header is None:
            raise LedgerError("the run is not open")
        return self.state.header

    async def snapshot(self) -> Snapshot:
        """Return the run as the planner sees it now."""
        return Snapshot(
            problem=self.header.problem,
            settings=self.settings,
            space=await self.space(),
            state=self.state,
            elapsed_seconds=round(self._active_seconds, 3),
        )

    async def space(self) -> Space:
        """Return the search space, built once, in a thread."""
        if self.built_space is None:
            self.built_space = await asyncio.to_thread(build_space, self.header.problem, self.header.settings)
        return self.built_space

    async def close(self) -> None:
        """Abandon calls to the advisor that are still open, and a decision."""
        if self.deciding is not None:
            self.deciding.cancel()
        for task in self.asked.values():
            task.cancel()
        await asyncio.gather(*self.asked.values(), return_exceptions=True)
        self.asked.clear()
