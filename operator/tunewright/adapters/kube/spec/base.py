"""What the models of the custom resource share: schema marks, decimal strings, references.

Called by every module of this package. The marks starting with ``x-kubernetes-`` go through to the CRD as they are.
"""

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, WithJsonSchema

from tunewright.domain.value import Value
from tunewright.errors import printable

VALIDATIONS = "x-kubernetes-validations"
DECIMAL_PATTERN = r"^[0-9]{1,12}(\.[0-9]{1,6})?$"
_NOT_ZERO = "must be at least 0.000001"
_LARGEST_WHOLE = 10**12 - 1


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


def _not_zero(text: str) -> str:
    if not text.strip("0."):
        raise ValueError(_NOT_ZERO)
    return text


def _decimal_schema(minimum: int, **extra: Any) -> WithJsonSchema:  # noqa: ANN401 - parts of a schema
    """The API server holds whole numbers against the limits and texts against the pattern."""
    limits = {"minimum": minimum, "maximum": _LARGEST_WHOLE, "pattern": DECIMAL_PATTERN, "maxLength": 20}
    return WithJsonSchema({"x-kubernetes-int-or-string": True, **limits, **extra})


_DecimalText = Annotated[str, StringConstraints(pattern=DECIMAL_PATTERN, max_length=20), BeforeValidator(_decimal_text)]
Decimal = Annotated[_DecimalText, _decimal_schema(0)]
"""A whole number, or a decimal in quotes: custom resources have no floating point numbers."""
PositiveDecimal = Annotated[
    _DecimalText,
    AfterValidator(_not_zero),
    _decimal_schema(1, **validated(rule("type(self) == int || string(self).matches('[1-9]')", message=_NOT_ZERO))),
]
"""The same, and more than nothing."""


def unique_by(*names: str) -> AfterValidator:
    """Return the check that no two items of a list agree in the attributes `names`; without names, in themselves.

    The API server does this for lists that are marked as sets or maps.
    """

    def check(items: tuple[Any, ...]) -> tuple[Any, ...]:
        for name in names or ("",):
            values = [getattr(item, name) if name else item for item in items]
            twice = next((value for number, value in enumerate(values) if value in values[:number]), None)
            if twice is not None:
                raise ValueError(f"{printable(str(twice))} is given twice: remove one")
        return items

    return AfterValidator(check)


ObjectName = Annotated[
    str, StringConstraints(min_length=1, max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
]
PresetName = Annotated[str, StringConstraints(min_length=1, max_length=63)]


class KeyRef(Value):
    """One key of a ConfigMap or Secret in the run's namespace."""

    name: ObjectName
    key: str = Field(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z0-9]+$")
