"""Which Events a change of status deserves: one for each transition that a person would want to know. Pure."""

from collections.abc import Mapping
from typing import Any, get_args

from tunewright.adapters.kube.conditions import status_of
from tunewright.adapters.kube.events import transition_event
from tunewright.adapters.kube.names import RunReference
from tunewright.adapters.kube.status import BlockedReason

Status = Mapping[str, Any]

_REFUSED = (
    ("Accepted", "NotAccepted"),
    ("CapacityAvailable", "NoCapacity"),
    ("AdvisorAvailable", "AdvisorUnavailable"),
)


def transitions(run: RunReference, before: Status, after: Status, at: str) -> list[dict[str, Any]]:
    """Return the events between two statuses, in the order in which things happened."""
    events = [
        *_refused(before, after),
        *_blocked(before, after),
        *_failed_trial(before, after),
        *_state(before, after),
    ]
    return [transition_event(run, reason, message, warning=warning, at=at) for reason, message, warning in events]


def _refused(before: Status, after: Status) -> list[tuple[str, str, bool]]:
    found = []
    for name, event_reason in _REFUSED:
        condition = _condition(after, name)
        was_refused = status_of(before.get("conditions", ()), name) == "False"
        if condition["status"] == "False" and not was_refused and condition["reason"] != "NotConfigured":
            found.append((event_reason, str(condition["message"]), True))
    return found


def _blocked(before: Status, after: Status) -> list[tuple[str, str, bool]]:
    """A run that is held says by what, once for each cause."""
    condition = _condition(after, "Finished")
    said = (str(condition["reason"]), str(condition["message"]))
    earlier = [(item["reason"], item["message"]) for item in before.get("conditions", ()) if item["type"] == "Finished"]
    return [(*said, True)] if said[0] in get_args(BlockedReason) and said not in earlier else []


def _failed_trial(before: Status, after: Status) -> list[tuple[str, str, bool]]:
    old = (before.get("trials") or {}).get("lastFailure")
    new = (after.get("trials") or {}).get("lastFailure")
    if new is None or new == old:
        return []
    return [("TrialFailed", f"{new['trial']} {new['class']}: {new.get('message', '')}", True)]


def _state(before: Status, after: Status) -> list[tuple[str, str, bool]]:
    state = after["state"]
    if before.get("state", "Pending") == state:
        return []
    return [(state, str(after.get("answer", "")) or f"the run is {state.lower()}", state == "Failed")]


def _condition(status: Status, name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = next(item for item in status["conditions"] if item["type"] == name)
    return found
