"""One live run: its ports, and what is remembered between steps only to save work.

Everything here can be rebuilt from the ledger; losing it costs time, never a trial. Made by the controller's wiring
and by the command line.
"""

import asyncio
from dataclasses import dataclass, field

from tunewright.planner.records import Advice, Record
from tunewright.ports import Advisor, Clock, Ledger, Trials
from tunewright.search.space import Space


@dataclass
class RunHandle:
    """The ports of one run and its caches. One step at a time: callers never overlap steps of one handle."""

    ledger: Ledger
    trials: Trials
    clock: Clock
    advisor: Advisor | None = None
    trial_deadline_seconds: float = 600.0
    space: Space | None = None
    records: list[Record] = field(default_factory=list)
    asked: dict[int, asyncio.Task[Advice]] = field(default_factory=dict)
    """Calls to the advisor that this process made, by round. A round that is asked but not here was lost."""

    async def load(self) -> list[Record]:
        """Read the ledger once; this handle is its only writer from then on."""
        if not self.records:
            self.records = list(await self.ledger.read())
        return self.records

    async def append(self, *records: Record) -> None:
        """Write records durably, then remember them."""
        await self.ledger.append(records)
        self.records.extend(records)

    async def close(self) -> None:
        """Abandon calls to the advisor that are still open."""
        for task in self.asked.values():
            task.cancel()
        await asyncio.gather(*self.asked.values(), return_exceptions=True)
        self.asked.clear()
