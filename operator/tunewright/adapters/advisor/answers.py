"""What an LLM may answer: the schema it is shown, and the lenient reading of what it really said.

The schema is narrow (each axis with its allowed values); the reading is wide, since an odd proposal must reach the
planner, which records why it was rejected. Called by `signatures` and `conversation`.
"""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema, create_model, model_validator

from tunewright.adapters.advisor.transcript import printable
from tunewright.planner.records import ProposedConfig

MOST_PROPOSALS = 32
MOST_CHANGES = 64
_LONGEST_NAME = 100
_LONGEST_VALUE = 200
_LARGEST_INTEGER = 2**53
UNREADABLE = "unreadable"
"""Name under which an item that is no proposal travels to the planner, which will know no such axis."""


class Proposal(BaseModel):
    """One configuration to try: why, and what differs from the incumbent."""

    model_config = ConfigDict(extra="ignore")

    reason: str = Field(description="Mechanism and expected gain, in one or two sentences.")
    changes: dict[str, Any] = Field(description="Axis to value; an axis that keeps the incumbent's value is null.")

    @model_validator(mode="before")
    @classmethod
    def _read_leniently(cls, item: object) -> dict[str, Any]:
        if not isinstance(item, Mapping):
            return {"reason": "", "changes": {UNREADABLE: _short(item)}}
        reason = item.get("reason", "")
        changes = _mapping_of(item.get("changes"))
        if changes is None:
            changes = {UNREADABLE: _short(dict(item))}
        return {"reason": reason if isinstance(reason, str) else _short(reason), "changes": changes}


def _mapping_of(changes: object) -> dict[str, Any] | None:
    """Read a mapping, or a list of `{axis, value}` pairs; None when it is neither."""
    if isinstance(changes, Mapping):
        return {str(name): value for name, value in changes.items()}
    if not isinstance(changes, list):
        return None
    pairs = [(item.get("axis"), item.get("value")) for item in changes if isinstance(item, Mapping)]
    if len(pairs) != len(changes) or not all(isinstance(axis, str) for axis, _ in pairs):
        return None
    return {str(axis): value for axis, value in pairs}


def proposal_type(axes: object) -> type[Proposal]:
    """Return the `Proposal` whose schema allows exactly `axes`, a mapping of axis name to its allowed values.

    Anything else gives a schema of free axis and value pairs, as strict JSON schemas allow no open mapping.
    """
    changes = Annotated[dict[str, Any], WithJsonSchema(_changes_schema(axes))]
    description = Proposal.model_fields["changes"].description
    return create_model("Proposal", __base__=Proposal, changes=(changes, Field(description=description)))


def _changes_schema(axes: object) -> dict[str, Any]:
    if isinstance(axes, Mapping) and axes and all(_is_listing(values) for values in axes.values()):
        properties = {str(name): _one_of(values) for name, values in axes.items()}
        return _object_schema(properties)
    value = {"anyOf": [{"type": kind} for kind in ("integer", "string", "boolean")]}
    return {"type": "array", "items": _object_schema({"axis": {"type": "string"}, "value": value})}


def _object_schema(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _is_listing(values: object) -> bool:
    if not isinstance(values, Sequence) or isinstance(values, str):
        return False
    return len(values) > 0 and all(isinstance(value, bool | int | str) for value in values)


def _one_of(values: Sequence[bool | int | str]) -> dict[str, Any]:
    kinds = [
        ("boolean", [value for value in values if isinstance(value, bool)]),
        ("integer", [value for value in values if isinstance(value, int) and not isinstance(value, bool)]),
        ("string", [value for value in values if isinstance(value, str)]),
    ]
    return {"anyOf": [*({"type": kind, "enum": found} for kind, found in kinds if found), {"type": "null"}]}


def proposed_configs(proposals: Sequence[Proposal], wanted: int) -> tuple[ProposedConfig, ...]:
    """Turn what was read into records: at most `wanted` of them, values plain and short, text printable."""
    return tuple(
        ProposedConfig(changes=_plain_changes(item.changes), reason=printable(item.reason, 1000))
        for item in proposals[: min(wanted, MOST_PROPOSALS)]
    )


def readable(proposals: Sequence[Proposal]) -> bool:
    """Tell whether anything in the answer was a proposal."""
    return any(UNREADABLE not in proposal.changes for proposal in proposals)


def _plain_changes(changes: Mapping[str, Any]) -> dict[str, Any]:
    kept = [(name, value) for name, value in changes.items() if value is not None][:MOST_CHANGES]
    return {printable(name, _LONGEST_NAME): plain_value(value) for name, value in kept}


def plain_value(value: object) -> bool | int | float | str | list[str]:
    """Return `value` if a ledger can hold it, else its text, shortened.

    >>> plain_value(8.0), plain_value(float("nan")), plain_value({"a": 1})
    (8, 'NaN', '{"a": 1}')
    """
    if isinstance(value, float) and math.isfinite(value):
        return int(value) if value.is_integer() and abs(value) <= _LARGEST_INTEGER else value
    if isinstance(value, bool) or (isinstance(value, int) and abs(value) <= _LARGEST_INTEGER):
        return value
    if isinstance(value, list) and len(value) <= MOST_CHANGES and all(isinstance(part, str) for part in value):
        return [printable(part, _LONGEST_VALUE) for part in value]
    return _short(value)


def _short(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return printable(text, _LONGEST_VALUE)
