"""Derives every recorded decision again from the records before it. Called by `tunewright replay`; needs no GPU.

Nothing is taken from the recorded decisions but what they are compared with: the header, the reports, the answers of
the advisor and the elapsed time of each round are the only inputs. A strict replay derives the projections again too.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tunewright.domain.problem import TuningProblem
from tunewright.errors import LedgerError
from tunewright.planner.decide import decide
from tunewright.planner.projected import new_projections
from tunewright.planner.records import Header, ProjectedFigure, Record, Round
from tunewright.planner.snapshot import Snapshot
from tunewright.planner.state import RunState, fold
from tunewright.search.space import Space, build_space

ABSENT = "absent"
SAME_FIGURE = 1e-5
"""Relative difference up to which two figures are the same number: recorded are six digits."""


@dataclass(frozen=True)
class Difference:
    """The first thing that differs. `line` counts records from 1."""

    line: int
    field: str
    recorded: Any
    derived: Any

    def __str__(self) -> str:
        return f"line {self.line}: {self.field}: recorded {self.recorded!r}, derived {self.derived!r}"


Found = tuple[str, Any, Any]


def replay(records: Sequence[Record], space: Space | None = None) -> Difference | None:
    """Return the first difference between recorded and derived decisions, or None when all are identical.

    Raises `LedgerError` when the records do not begin with a header.
    """
    return next(_differences(records, space, _decisions_differ), None)


def replay_projections(
    records: Sequence[Record], space: Space | None = None, problem: TuningProblem | None = None
) -> Difference | None:
    """Return the first recorded projection that its report does not give, or None when all are the same.

    With `problem`, derive them for that one instead of the header's: what another catalog would have said.
    """

    space = space or space_of(header_of(records))
    if problem is not None:
        space = replace(space, memo={})  # what is kept there is of the header's problem

    def differ(snapshot: Snapshot, recorded: Round) -> Found | None:
        return _projections_differ(replace(snapshot, problem=problem or snapshot.problem), recorded)

    return next(_differences(records, space, differ), None)


def header_of(records: Sequence[Record]) -> Header:
    """Return the header; raise `LedgerError` when the records do not begin with one."""
    if not records or not isinstance(records[0], Header):
        raise LedgerError("line 1: a ledger begins with its header")
    return records[0]


def space_of(header: Header) -> Space:
    """Return the search space of a run."""
    return build_space(header.problem, header.settings)


def _differences(
    records: Sequence[Record], space: Space | None, differ: Callable[[Snapshot, Round], Found | None]
) -> Iterator[Difference]:
    """Yield what differs in each round, seen from the records before it."""
    header = header_of(records)
    space = space or space_of(header)
    state = RunState()
    for line, record in enumerate(records, start=1):
        if isinstance(record, Round):
            settings = state.settings or header.settings
            snapshot = Snapshot(header.problem, settings, space, state, record.elapsed_seconds)
            if found := differ(snapshot, record):
                yield Difference(line, *found)
        fold([record], state)


def _decisions_differ(snapshot: Snapshot, recorded: Round) -> Found | None:
    derived = [decision.to_json() for decision in decide(snapshot)]
    return first_difference("decisions", [decision.to_json() for decision in recorded.decisions], derived)


def _projections_differ(snapshot: Snapshot, recorded: Round) -> Found | None:
    derived = new_projections(snapshot, recorded.decisions)
    if len(derived) != len(recorded.projections):
        return "projections", _count(recorded.projections), _count(derived)
    for place, (one, other) in enumerate(zip(recorded.projections, derived, strict=True)):
        for field, was, now in _pairs(one, other):
            if not _same_figure(was, now):
                return f"projections[{place}].{field} of {one.trial}", was, now
    return None


def _pairs(recorded: ProjectedFigure, derived: ProjectedFigure) -> Iterator[tuple[str, Any, Any]]:
    before, now = recorded.to_json(), derived.to_json()
    return ((key, before[key], now[key]) for key in before)


def _count(figures: Sequence[ProjectedFigure]) -> str:
    return f"{len(figures)} projections"


def _same_figure(recorded: object, derived: object) -> bool:
    if isinstance(recorded, float) and isinstance(derived, float):
        return abs(recorded - derived) <= SAME_FIGURE * max(abs(recorded), abs(derived))
    return recorded == derived


def first_difference(path: str, recorded: object, derived: object) -> Found | None:
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
