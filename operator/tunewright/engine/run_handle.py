"""One live run: its ports, and what is remembered between steps only to save work.

Everything here can be rebuilt from the ledger; losing it costs time, never a trial. Made by the controller's wiring
and by the command line.
"""

import asyncio
from dataclasses import dataclass, field

from tunewright.errors import LedgerError
from tunewright.planner.records import Advice, Header, Record
from tunewright.planner.snapshot import Snapshot
from tunewright.planner.state import RunState, fold
from tunewright.ports import Advisor, Clock, Ledger, Trials
from tunewright.search.space import Space, build_space


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

    async def open(self, header: Header) -> None:
        """Read the ledger, or start it with `header`. This handle is its only writer from then on.

        Raises `LedgerError` when the ledger belongs to another run or another request.
        """
        records = await self.ledger.read()
        self.state = fold(records)
        if self.state.header is None:
            await self.append(header)
        else:
            _check_same_request(self.state.header, header)

    async def append(self, *records: Record) -> None:
        """Write records durably, then fold them."""
        await self.ledger.append(records)
        fold(records, self.state)

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
            settings=self.state.settings or self.header.settings,
            space=await self.space(),
            state=self.state,
            elapsed_seconds=self._elapsed_seconds(),
        )

    async def space(self) -> Space:
        """Return the search space, built once, in a thread."""
        if self.built_space is None:
            self.built_space = await asyncio.to_thread(build_space, self.header.problem, self.header.settings)
        return self.built_space

    async def close(self) -> None:
        """Abandon calls to the advisor that are still open."""
        for task in self.asked.values():
            task.cancel()
        await asyncio.gather(*self.asked.values(), return_exceptions=True)
        self.asked.clear()

    def _elapsed_seconds(self) -> float:
        """Return the run's age. It never goes back, even where the clock does."""
        age = self.clock.seconds() - self.clock.seconds_of(self.header.at)
        return max(round(age, 3), self.state.elapsed_seconds, 0.0)


def _check_same_request(recorded: Header, wanted: Header) -> None:
    """Compare what defines a run. Settings may change; they have records of their own."""
    for name in ("run_uid", "problem", "simulated"):
        if getattr(recorded, name) != getattr(wanted, name):
            raise LedgerError(f"the ledger belongs to a run with another {name}: start a new run under another name")
    for name in ("baseline", "search_space", "sweep_axes", "validation", "random_seed"):
        if getattr(recorded.settings, name) != getattr(wanted.settings, name):
            raise LedgerError(f"the ledger was made with another {name}: start a new run under another name")
