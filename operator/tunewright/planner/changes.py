"""Reads changes to a configuration, as typed by a person or proposed by an LLM. Called by sweep and explore.

Names are those of `domain.axes` in any of their forms; the result is a valid `TrainingConfig`, legal or not.
"""

from collections.abc import Mapping
from typing import Any

from tunewright.domain.axes import Axis, axis_named, parse_value
from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import TrainingConfig, default_recompute_modules
from tunewright.errors import InvalidInput


def read_changes(changes: Mapping[str, Any]) -> dict[str, object]:
    """Return changes by field, with typed values; raise `InvalidInput` for unknown axes and unreadable values."""
    read: dict[str, object] = {}
    # In the order of names: a ledger line comes back sorted, and the first bad value must be the same one.
    for name, value in sorted(changes.items()):
        axis = axis_named(name)
        if axis.field in read:
            raise InvalidInput.of(name, value, f"{axis.field} is named twice: name it once")
        read[axis.field] = _value(axis, value)
    return read


def with_changes(problem: TuningProblem, config: TrainingConfig, changes: Mapping[str, object]) -> TrainingConfig:
    """Return `config` with changes; the recompute modules follow the granularity unless they are named themselves."""
    fields = {name: getattr(config, name) for name in TrainingConfig.model_fields} | dict(changes)
    if "recompute_modules" not in changes:
        selective = fields["recompute_granularity"] == "selective"
        fields["recompute_modules"] = (
            fields["recompute_modules"] or default_recompute_modules(problem.model) if selective else ()
        )
    return TrainingConfig.parse(fields)


def _value(axis: Axis, value: object) -> object:
    if axis.kind == "modules":
        parts = value if isinstance(value, list | tuple) else parse_value(axis, str(value))
        return tuple(sorted(str(part) for part in parts)) if isinstance(parts, list | tuple) else parts
    if axis.kind == "switch" and isinstance(value, bool):
        return value
    if isinstance(value, bool | list | dict) or value is None:
        raise InvalidInput.of(axis.field, value, "is not a value that this axis can have")
    return parse_value(axis, str(value))
