"""Conditions of a run: what each may say, and how an old list becomes the new one. Pure; called by `status`."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

ConditionStatus = Literal["True", "False", "Unknown"]

TYPES = (
    "Accepted",
    "CapacityAvailable",
    "AdvisorAvailable",
    "Seeded",
    "Explored",
    "Validated",
    "Suspended",
    "Finished",
    "Succeeded",
)
"""Every type, in the order in which people read them; all are present from the first write."""

PENDING = "Pending"


@dataclass(frozen=True)
class Wanted:
    """What one condition should say."""

    type: str
    status: ConditionStatus
    reason: str
    message: str = ""


def updated_conditions(
    previous: Sequence[Mapping[str, Any]], wanted: Iterable[Wanted], generation: int, now: str
) -> list[dict[str, Any]]:
    """Return the full list. A condition keeps its transition time as long as its status is the same."""
    by_type = {condition.type: condition for condition in wanted}
    before = {str(condition["type"]): condition for condition in previous}
    return [
        _condition(by_type.get(name) or Wanted(name, "Unknown", PENDING), before.get(name), generation, now)
        for name in TYPES
    ]


def _condition(wanted: Wanted, before: Mapping[str, Any] | None, generation: int, now: str) -> dict[str, Any]:
    unchanged = before is not None and before.get("status") == wanted.status
    return {
        "type": wanted.type,
        "status": wanted.status,
        "reason": wanted.reason,
        "message": wanted.message[:4000],
        "observedGeneration": generation,
        "lastTransitionTime": before["lastTransitionTime"] if before is not None and unchanged else now,
    }


def status_of(conditions: Iterable[Mapping[str, Any]], name: str) -> str:
    """Return the status of one condition; Unknown when it is not there."""
    return next((str(item["status"]) for item in conditions if item["type"] == name), "Unknown")
