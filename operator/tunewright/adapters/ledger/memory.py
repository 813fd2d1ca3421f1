"""A ledger in memory: for plans that are thrown away, and for tests."""

from collections.abc import Sequence

from tunewright.adapters.ledger.lines import decode_lines
from tunewright.planner.chain import START, chained
from tunewright.planner.records import Record


class MemoryLedger:
    """Keeps the text that a file would hold, so that what is read back has been through the codec."""

    def __init__(self) -> None:
        self._text = ""
        self._head = START

    async def read(self) -> list[Record]:
        """Return all records in order."""
        return decode_lines(self._text, "memory")

    async def append(self, records: Sequence[Record]) -> None:
        """Add records."""
        text, self._head = chained(records, self._head)
        self._text += text
