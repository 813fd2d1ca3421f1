"""The first page of a support bundle: what the run says of itself, and what to do about its failures. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tunewright.trial_protocol.failure_guide import FAILURE_GUIDE


def summary_of(key: str, run: Mapping[str, Any] | None, unread: Sequence[str]) -> str:
    """Return the text: state and answer, conditions that are not as they should be, failures, what was not read."""
    status: Mapping[str, Any] = (run or {}).get("status") or {}
    lines = [
        f"{key}: {status.get('state', 'no status')}",
        str(status.get("answer", "")),
        *_section("Conditions", _conditions(status)),
        *_section("Failed trials", _failures(status.get("trials") or {})),
        *_section("Not read", unread),
    ]
    return "\n".join(line for line in lines if line) + "\n"


def _section(title: str, lines: Iterator[str] | Sequence[str]) -> list[str]:
    found = list(lines)
    return [f"\n{title}", *(f"  {line}" for line in found)] if found else []


def _conditions(status: Mapping[str, Any]) -> Iterator[str]:
    for condition in status.get("conditions") or ():
        told = f": {condition['message']}" if condition.get("message") else ""
        yield f"{condition['type']}={condition['status']} {condition['reason']}{told}"


def _failures(trials: Mapping[str, Any]) -> Iterator[str]:
    guides = {str(name): guide for name, guide in FAILURE_GUIDE.items()}
    for entry in trials.get("failedByClass") or ():
        guide = guides.get(entry["class"])
        told = f": {guide.meaning} {guide.remedy}" if guide else ""
        yield f"{entry['count']} × {entry['class']}{told}"
    if last := trials.get("lastFailure"):
        where = f" on {last['node']}" if last.get("node") else ""
        yield f"the last one, {last['trial']}{where}: {last.get('message', '')}"
