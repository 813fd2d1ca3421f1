"""The axes of the search: their glossary names, short names, and kind. The one place where an axis is added.

Read by the enumeration, the sweep, `--set` on the command line, tables and the custom resource.
"""

import difflib
from dataclasses import dataclass
from typing import Literal

from tunewright.domain.training_config import (
    MOE_DISPATCHERS,
    OPTIMIZERS,
    PIPELINE_SCHEDULES,
    PRECISIONS,
    RECOMPUTE_GRANULARITIES,
    RECOMPUTE_METHODS,
    TrainingConfig,
)
from tunewright.domain.value import MOST_TYPED, camel_case, whole_number
from tunewright.errors import InvalidInput

AxisKind = Literal["degree", "categorical", "switch", "modules"]
AxisValue = int | str | bool


@dataclass(frozen=True)
class Axis:
    """One axis: `field` of `TrainingConfig`, what people type, and how its values compare."""

    field: str
    short: str
    kind: AxisKind
    choices: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()


AXES: tuple[Axis, ...] = (
    Axis("tensor_parallel_size", "tp", "degree", aliases=("tensor",)),
    Axis("pipeline_parallel_size", "pp", "degree", aliases=("pipeline",)),
    Axis("virtual_pipeline_parallel_size", "vpp", "degree", aliases=("virtual_pipeline",)),
    Axis("context_parallel_size", "cp", "degree", aliases=("context",)),
    Axis("expert_parallel_size", "ep", "degree", aliases=("expert",)),
    Axis("expert_tensor_parallel_size", "etp", "degree", aliases=("expert_tensor",)),
    Axis("micro_batch_size", "mbs", "degree", aliases=("micro_batch",)),
    Axis("recompute_granularity", "recompute", "categorical", RECOMPUTE_GRANULARITIES),
    Axis("recompute_modules", "modules", "modules"),
    Axis("recompute_method", "method", "categorical", RECOMPUTE_METHODS),
    Axis("recompute_num_layers", "rlayers", "degree"),
    Axis("moe_dispatcher", "dispatcher", "categorical", MOE_DISPATCHERS),
    Axis("pipeline_schedule", "schedule", "categorical", PIPELINE_SCHEDULES),
    Axis("pipeline_layout", "layout", "categorical"),
    Axis("precision", "precision", "categorical", PRECISIONS),
    Axis("optimizer", "optimizer", "categorical", OPTIMIZERS),
    Axis("overlap_grad_reduce", "ogr", "switch"),
    Axis("overlap_param_gather", "opg", "switch"),
    Axis("cross_entropy_fusion", "fused_loss", "switch", aliases=("loss_fusion",)),
    Axis("sync_free_stage", "sync_free", "degree"),
)

_BY_NAME = {name: axis for axis in AXES for name in (axis.field, axis.short, *axis.aliases)} | {
    TrainingConfig.model_fields[axis.field].alias or axis.field: axis for axis in AXES
}


def axis_named(name: str) -> Axis:
    """Find an axis by field, camelCase, short or alias name; raise `InvalidInput` with the nearest names."""
    axis = _BY_NAME.get(name) or _BY_NAME.get(name.replace("-", "_"))
    if axis is None:
        near = difflib.get_close_matches(name[:64], _BY_NAME, n=3) or [camel_case(axis.field) for axis in AXES[:4]]
        raise InvalidInput.of(name, name, f"is not an axis; did you mean {', '.join(near)}?")
    return axis


def parse_value(axis: Axis, text: str) -> AxisValue | tuple[str, ...]:
    """Read one value of `axis` as typed on a command line; raise `InvalidInput` with what is allowed."""
    name = camel_case(axis.field)
    if axis.kind == "degree":
        number = whole_number(text)
        if number is None:
            raise InvalidInput.of(name, text, f"must be a whole number up to {MOST_TYPED}")
        return number
    if axis.kind == "switch":
        if text.lower() not in ("true", "false", "on", "off"):
            raise InvalidInput.of(name, text, "must be true or false")
        return text.lower() in ("true", "on")
    if axis.kind == "modules":
        return tuple(part for part in text.split("+") if part)
    if axis.choices and text not in axis.choices:
        raise InvalidInput.of(name, text, f"must be one of {', '.join(axis.choices)}")
    return text


def describe(config: TrainingConfig, *, always: tuple[str, ...] = ("tp", "pp", "mbs")) -> str:
    """Print a configuration in one short line: the named axes and whatever differs from the defaults.

    >>> describe(TrainingConfig(tensor_parallel_size=2, pipeline_parallel_size=4))
    'tp2 pp4 mbs1'
    """
    default = TrainingConfig()
    parts = []
    for axis in AXES:
        value = getattr(config, axis.field)
        if axis.short not in always and value == getattr(default, axis.field):
            continue
        parts.append(_phrase(axis, value))
    return " ".join(parts)


def _phrase(axis: Axis, value: object) -> str:
    if axis.kind == "degree":
        return f"{axis.short}{value}"
    if axis.kind == "switch":
        return axis.short if value else f"no-{axis.short}"
    if axis.kind == "modules":
        return "+".join(value) if isinstance(value, tuple) else str(value)
    if axis.field in ("recompute_granularity", "pipeline_layout"):
        return f"{axis.short}={value}"
    return str(value)
