"""`baseline` and `searchSpace`: one optional field per axis, made from `TrainingConfig`, so an axis is added once.

Read by `acceptance`, which turns them into a `TrainingConfig` and into the planner's search space.
"""

from typing import Annotated, Any

from pydantic import Field, StringConstraints, WithJsonSchema, create_model

from tunewright.adapters.kube.spec.base import ATOMIC, SET, unique_by
from tunewright.domain.axes import AXES
from tunewright.domain.training_config import TrainingConfig
from tunewright.domain.value import Value, camel_case

MAX_VALUES = 64

_MODULES = Annotated[str, StringConstraints(pattern=r"^[a-z_]+(\+[a-z_]+)*$", max_length=128)]


AxisName = Annotated[
    str,
    StringConstraints(max_length=63),
    WithJsonSchema({"type": "string", "enum": [camel_case(axis.field) for axis in AXES]}),
]
"""An axis in camelCase. Spelling is checked by `acceptance`, which can name the nearest one."""


def _constrained(field: str) -> Any:  # noqa: ANN401 - a type built at run time
    info = TrainingConfig.model_fields[field]
    return Annotated[(info.annotation, *info.metadata)] if info.metadata else info.annotation


def _one(field: str) -> tuple[Any, Any]:
    if field == "recompute_modules":
        return _constrained(field) | None, _described(field, max_length=8, json_schema_extra=ATOMIC)
    return _constrained(field) | None, _described(field)


def _many(field: str) -> tuple[Any, Any]:
    item = _MODULES if field == "recompute_modules" else _constrained(field)
    several = Annotated[tuple[item, ...], Field(min_length=1, max_length=MAX_VALUES), unique_by()]  # type: ignore[valid-type]
    return several | None, _described(field, json_schema_extra=SET)


def _described(field: str, **extra: Any) -> Any:  # noqa: ANN401 - what pydantic's Field returns
    return Field(None, description=TrainingConfig.model_fields[field].description, **extra)


def _model(name: str, what: str, fields: dict[str, Any]) -> type[Value]:
    return create_model(name, __base__=Value, __doc__=what, **fields)


BaselineSpec = _model(
    "BaselineSpec",
    "The configuration to beat. Fields that are absent have their default.",
    {axis.field: _one(axis.field) for axis in AXES},
)
SearchSpaceSpec = _model(
    "SearchSpaceSpec",
    "Allowed values by axis. Axes that are absent have their default values.",
    {axis.field: _many(axis.field) for axis in AXES},
)
