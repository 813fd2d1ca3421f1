"""What an LLM may answer: the schema it is shown, and the lenient reading of what it really said.

The schema is narrow (each axis with its allowed values); the reading is wide, since an odd proposal must reach the
planner, which records why it was rejected. Called by `signatures` and `conversation`.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema, create_model, model_validator

from tunewright.adapters.advisor.transcript import printable
from tunewright.planner.records import Hypothesis, ProposedConfig

MOST_PROPOSALS = 32
MOST_HYPOTHESES = 32
MOST_AXES = 8
MOST_CHANGES = 64
_LONGEST_NAME = 100
_LONGEST_VALUE = 200
_LONGEST_REASON = 1000
_LARGEST_GAIN_PERCENT = 1000
_LARGEST_INTEGER = 2**53
UNREADABLE = "unreadable"
"""Name under which an item that is no proposal travels to the planner, which will know no such axis."""


class StatedHypothesis(BaseModel):
    """One hypothesis: which axes together, why, and what it would gain."""

    model_config = ConfigDict(extra="ignore")

    axes: list[str] = Field(description="The axes that win together.", json_schema_extra={"maxItems": MOST_AXES})
    mechanism: str = Field(description="Which resource it relieves and how, in one or two sentences.")
    expected_gain_percent: float = Field(description="Expected gain over the incumbent, in percent.")

    @model_validator(mode="before")
    @classmethod
    def _read_leniently(cls, item: object) -> dict[str, Any]:
        if not isinstance(item, Mapping):
            return {"axes": [], "mechanism": _short(item), "expected_gain_percent": math.nan}
        axes = item.get("axes")
        gain = item.get("expected_gain_percent")
        return {
            "axes": [str(axis) for axis in axes] if isinstance(axes, list) else [],
            "mechanism": _text_of(item.get("mechanism", "")),
            "expected_gain_percent": gain if isinstance(gain, int | float) else math.nan,
        }


class Proposal(BaseModel):
    """One configuration to try: what it tests, why, and what differs from the incumbent."""

    model_config = ConfigDict(extra="ignore")

    hypothesis: int = Field(description="Number of the hypothesis that it tests, counted from 1; 0: none.")
    reason: str = Field(description="Mechanism and expected gain, in one or two sentences.")
    changes: dict[str, Any] = Field(description="Axis to value; an axis that keeps the incumbent's value is null.")

    @model_validator(mode="before")
    @classmethod
    def _read_leniently(cls, item: object) -> dict[str, Any]:
        if not isinstance(item, Mapping):
            return {"hypothesis": 0, "reason": "", "changes": {UNREADABLE: _short(item)}}
        changes = _mapping_of(item.get("changes"))
        if changes is None:
            changes = {UNREADABLE: _short(dict(item))}
        number = item.get("hypothesis")
        return {
            "hypothesis": number if type(number) is int and 0 <= number <= MOST_HYPOTHESES else 0,
            "reason": _text_of(item.get("reason", "")),
            "changes": changes,
        }


@dataclass(frozen=True)
class Answer:
    """What was read of one answer."""

    proposals: Sequence[Proposal]
    hypotheses: Sequence[StatedHypothesis] = ()


def _text_of(value: object) -> str:
    return value if isinstance(value, str) else _short(value)


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


def proposed_configs(answer: Answer, wanted: int, redact: Callable[[str], str]) -> tuple[ProposedConfig, ...]:
    """Turn what was read into records: at most `wanted`, values plain and short, text printable, secrets removed."""
    return tuple(
        ProposedConfig(
            changes=_plain_changes(item.changes, redact),
            reason=printable(redact(item.reason), _LONGEST_REASON),
            hypothesis=item.hypothesis if item.hypothesis <= len(answer.hypotheses) else 0,
        )
        for item in answer.proposals[: min(wanted, MOST_PROPOSALS)]
    )


def stated_hypotheses(answer: Answer, redact: Callable[[str], str]) -> tuple[Hypothesis, ...]:
    """Turn the hypotheses into records, in the same way."""
    return tuple(
        Hypothesis(
            axes=tuple(printable(redact(axis), _LONGEST_NAME) for axis in item.axes[:MOST_HYPOTHESES]),
            mechanism=printable(redact(item.mechanism), _LONGEST_REASON),
            expected_gain_percent=_gain(item.expected_gain_percent),
        )
        for item in answer.hypotheses[:MOST_HYPOTHESES]
    )


def _gain(percent: float) -> float | None:
    return float(percent) if abs(percent) <= _LARGEST_GAIN_PERCENT else None  # not a number is not within it either


def readable(proposals: Sequence[Proposal]) -> bool:
    """Tell whether anything in the answer was a proposal."""
    return any(UNREADABLE not in proposal.changes for proposal in proposals)


def _plain_changes(changes: Mapping[str, Any], redact: Callable[[str], str]) -> dict[str, Any]:
    kept = [(name, value) for name, value in changes.items() if value is not None][:MOST_CHANGES]
    return {printable(redact(name), _LONGEST_NAME): _redacted(plain_value(value), redact) for name, value in kept}


def _redacted(value: bool | float | str | list[str], redact: Callable[[str], str]) -> bool | float | str | list[str]:
    if isinstance(value, list):
        return [redact(part) for part in value]
    return redact(value) if isinstance(value, str) else value


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
