"""Derives every recorded decision again from the records before it. Called by `tunewright replay`; needs no GPU.

Nothing is taken from the recorded decisions but what they are compared with: the header, the reports, the answers of
the advisor and the elapsed time of each round are the only inputs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tunewright.errors import LedgerError
from tunewright.planner.decide import decide
from tunewright.planner.records import Header, Record, Round
from tunewright.planner.snapshot import Snapshot
from tunewright.planner.state import RunState, fold
from tunewright.search.space import Space, build_space

ABSENT = "absent"


@dataclass(frozen=True)
class Difference:
    """The first thing that differs. `line` counts records from 1."""

    line: int
    field: str
    recorded: Any
    derived: Any

    def __str__(self) -> str:
        return f"line {self.line}: {self.field}: recorded {self.recorded!r}, derived {self.derived!r}"


def replay(records: Sequence[Record], space: Space | None = None) -> Difference | None:
    """Return the first difference between recorded and derived decisions, or None when all are identical.

    Raises `LedgerError` when the records do not begin with a header.
    """
    if not records or not isinstance(records[0], Header):
        raise LedgerError("line 1: a ledger begins with its header")
    header = records[0]
    space = space or build_space(header.problem, header.settings)
    state = RunState()
    for line, record in enumerate(records, start=1):
        if isinstance(record, Round) and (difference := _compared(header, space, state, record)):
            return Difference(line, *difference)
        fold([record], state)
    return None


def _compared(header: Header, space: Space, state: RunState, record: Round) -> tuple[str, Any, Any] | None:
    settings = state.settings or header.settings
    derived = decide(Snapshot(header.problem, settings, space, state, record.elapsed_seconds))
    recorded = [decision.to_json() for decision in record.decisions]
    return first_difference("decisions", recorded, [decision.to_json() for decision in derived])


def first_difference(path: str, recorded: object, derived: object) -> tuple[str, Any, Any] | None:
    """Return the path of the first difference between two JSON documents, with both values."""
    if isinstance(recorded, dict) and isinstance(derived, dict):
        keys = list(dict.fromkeys([*recorded, *derived]))
        pairs = [(f"{path}.{key}", recorded.get(key, ABSENT), derived.get(key, ABSENT)) for key in keys]
    elif isinstance(recorded, list) and isinstance(derived, list):
        longest = max(len(recorded), len(derived))
        pairs = [(f"{path}[{i}]", _item(recorded, i), _item(derived, i)) for i in range(longest)]
    else:
        return None if _same(recorded, derived) else (path, recorded, derived)
    differences = (first_difference(*pair) for pair in pairs)
    return next((difference for difference in differences if difference), None)


def _item(items: list[Any], position: int) -> Any:  # noqa: ANN401 - JSON
    return items[position] if position < len(items) else ABSENT


def _same(recorded: object, derived: object) -> bool:
    """Compare values; true and 1 are different in JSON."""
    return type(recorded) is type(derived) and recorded == derived
