"""What the models of the custom resource share: schema marks, decimal strings, references.

Called by every module of this package. The marks starting with ``x-kubernetes-`` go through to the CRD as they are.
"""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, StringConstraints, WithJsonSchema

from tunewright.domain.value import Value

VALIDATIONS = "x-kubernetes-validations"
DECIMAL_PATTERN = r"^[0-9]{1,12}(\.[0-9]{1,6})?$"


def rule(expression: str, *, message: str = "", message_expression: str = "", field_path: str = "") -> dict[str, str]:
    """Return one CEL rule. A `message_expression` may fail at run time, so `message` stands behind it."""
    entries = {"rule": expression, "message": message, "messageExpression": message_expression, "fieldPath": field_path}
    return {key: value for key, value in entries.items() if value}


def validated(*rules: dict[str, str]) -> dict[str, Any]:
    """Return the schema extra that attaches CEL rules to a model or a field."""
    return {VALIDATIONS: list(rules)}


SET: dict[str, Any] = {"x-kubernetes-list-type": "set"}
ATOMIC: dict[str, Any] = {"x-kubernetes-list-type": "atomic"}


def map_by(key: str) -> dict[str, Any]:
    """Return the schema extra of a list whose items are told apart by `key`."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}


def _decimal_text(value: object) -> object:
    if isinstance(value, bool):
        return value
    if isinstance(value, float):
        raise ValueError(f'is a floating point number: put it in quotes, "{value:g}"')
    return str(value) if isinstance(value, int) else value


Decimal = Annotated[
    str,
    StringConstraints(pattern=DECIMAL_PATTERN, max_length=20),
    BeforeValidator(_decimal_text),
    WithJsonSchema({"x-kubernetes-int-or-string": True, "pattern": DECIMAL_PATTERN, "maxLength": 20}),
]
"""A whole number, or a decimal in quotes: custom resources have no floating point numbers."""

ObjectName = Annotated[
    str, StringConstraints(min_length=1, max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
]
PresetName = Annotated[str, StringConstraints(min_length=1, max_length=63)]


class KeyRef(Value):
    """One key of a ConfigMap or Secret in the run's namespace."""

    name: ObjectName
    key: str = Field(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z0-9]+$")
