"""Whether a folder's run is the one that a file asks for, and what differs where it is not. Called by `run`."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from tunewright.errors import InvalidInput, Problem, shown_value
from tunewright.planner.records import Header

MOST_NAMED = 5
Difference = tuple[str, object, object]


def check_same_request(recorded: Header, wanted: Header) -> None:
    """Raise `InvalidInput` with the fields in which the run of a folder differs from what is asked now.

    What may change while a run is alive is no difference.
    """
    found = _differences("", _asked(recorded, wanted), _asked(wanted, wanted))
    problems = [
        Problem(place, now, f"the run in this folder has {shown_value(was)}: choose another --out, or --fresh")
        for place, was, now in islice(found, MOST_NAMED)
    ]
    if problems:
        raise InvalidInput(problems)


def _asked(header: Header, wanted: Header) -> dict[str, Any]:
    """Return what a header holds of the request, called as a person asks for it."""
    problem = header.problem.to_json()
    settings = header.settings.with_mutable_of(wanted.settings)
    spec = {"cluster": problem.pop("cluster"), "workload": problem, **settings.to_json()}
    return {
        "--trials": "simulated" if header.simulated else "local",
        "rerunOf": header.rerun_of,
        "spec": spec,
        "device": header.device.to_json(),
    }


def _differences(place: str, before: object, now: object) -> Iterator[Difference]:
    if before == now:
        return
    if not (isinstance(before, Mapping) and isinstance(now, Mapping)):
        yield place, before, now
        return
    prefix = f"{place}." if place else ""
    if before.get("name") != now.get("name"):
        yield f"{prefix}name", before.get("name"), now.get("name")
        return  # of another model or device nearly everything differs
    for key in dict.fromkeys([*before, *now]):
        yield from _differences(f"{prefix}{key}", before.get(key), now.get(key))
