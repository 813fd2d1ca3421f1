"""docs/reference/custom-resource.md: every field of a TuningRun, from the generated CustomResourceDefinition."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from docs.generate.markdown import code, page, table
from tunewright.adapters.kube.crd import custom_resource_definition
from tunewright.adapters.kube.spec.tuning_run import IMMUTABLE_OPTIONAL
from tunewright.domain.axes import AXES
from tunewright.domain.training_config import TrainingConfig
from tunewright.domain.value import camel_case

Schema = Mapping[str, Any]

_INTRODUCTION = (
    "Group `tunewright.dev`, version `v1alpha1`, kind `TuningRun`, short name `tnr`. `kubectl explain tuningrun.spec`"
    " prints the same from the cluster. How versions change:"
    " [version policy](../concepts/version-policy.md)."
)
_IMMUTABLE = frozenset({"workload", "cluster", "randomSeed", *IMMUTABLE_OPTIONAL})
_BY_AXIS = (
    "spec.baseline",
    "spec.searchSpace",
    "status.best.projected.configuration",
    "status.best.measured.configuration",
)
"""Objects with one field for each axis; the axes have a table of their own."""
_AXES = "The fields of `spec.baseline` (one value each) and `spec.searchSpace` (a list each). `--set` takes both names."
_HEAD = ("field", "type", "default", "meaning")


def custom_resource_page() -> str:
    """Return the page: one table for each part of the spec, the axes, and one for the status."""
    version = custom_resource_definition()["spec"]["versions"][0]
    root = version["schema"]["openAPIV3Schema"]["properties"]
    columns = [
        (column["name"], column.get("description", ""), code(column["jsonPath"])) for column in _columns(version)
    ]
    return page(
        "TuningRun",
        _INTRODUCTION,
        *(_part(f"spec.{name}", schema, root["spec"]) for name, schema in root["spec"]["properties"].items()),
        f"## Axes\n\n{_AXES}",
        table(("field", "short", "default", "values", "meaning"), [_axis_row(axis) for axis in AXES]),
        "## status\n\nWritten by the operator alone; a cache of what spec, ledger and Jobs say.",
        table(_HEAD, _relative("status", _rows("status", root["status"]))),
        "## Columns of kubectl get\n\nThe last three with `-o wide`.",
        table(("column", "meaning", "from"), columns),
    )


def _columns(version: Schema) -> list[Schema]:
    return list(version["additionalPrinterColumns"])


def _part(path: str, schema: Schema, spec: Schema) -> str:
    name = path.removeprefix("spec.")
    change = "Immutable." if name in _IMMUTABLE else "May change at any time."
    required = " Required." if name in spec["required"] else ""
    rows = list(_rows(path, schema)) or [_row(path, schema, required=False)]
    head = f"## {path}\n\n{_sentence(schema)}{change}{required}"
    return head if path in _BY_AXIS else f"{head}\n\n{table(_HEAD, _relative(path, rows))}"


def _relative(path: str, rows: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return the rows with field names below `path`, as code."""
    return [(code(name.removeprefix(f"{path}.")), *others) for name, *others in rows]


def _sentence(schema: Schema) -> str:
    text = str(schema.get("description", "")) if schema["type"] == "object" else ""
    return f"{text} " if text else ""


def _rows(path: str, schema: Schema) -> Iterator[tuple[str, str, str, str]]:
    """Walk the properties of an object, and of the items of a list of objects."""
    if path in _BY_AXIS:
        return
    if schema.get("type") == "array":
        path, schema = f"{path}[]", schema["items"]
    for name, child in schema.get("properties", {}).items():
        yield _row(f"{path}.{name}", child, required=name in schema.get("required", ()))
        yield from _rows(f"{path}.{name}", child)


def _row(path: str, schema: Schema, *, required: bool) -> tuple[str, str, str, str]:
    default = schema.get("default")
    stated = "" if default in (None, {}) else code(_plain(default))
    return path, _type(schema), "required" if required and path.startswith("spec") else stated, _meaning(schema)


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(list(value)) if isinstance(value, tuple) else str(value)


def _type(schema: Schema) -> str:
    if schema.get("x-kubernetes-int-or-string"):
        return "decimal"
    if "enum" in schema:
        return ", ".join(code(value) for value in schema["enum"])
    if schema["type"] == "array":
        return f"list of {_type(schema['items'])}"
    if "additionalProperties" in schema:
        return "map"
    return f"{schema['type']}{_limits(schema)}"


def _limits(schema: Schema) -> str:
    if schema["type"] != "integer" or "minimum" not in schema:
        return ""
    return f" {schema['minimum']:,}…{schema['maximum']:,}" if "maximum" in schema else f" ≥ {schema['minimum']:,}"


def _meaning(schema: Schema) -> str:
    rules = schema.get("x-kubernetes-validations", ())
    told = [rule["message"] for rule in rules if "message" in rule and "immutable" not in rule["message"]]
    return " ".join([str(schema.get("description", "")), *(f"Rule: {text}." for text in told)]).strip()


def _axis_row(axis: Any) -> tuple[str, str, str, str, str]:  # noqa: ANN401 - one of AXES
    field = TrainingConfig.model_fields[axis.field]
    values = ", ".join(code(choice) for choice in axis.choices) or {"switch": "`true`, `false`"}.get(axis.kind, "")
    default = field.default if field.default not in ((), None) else ""
    return code(camel_case(axis.field)), code(axis.short), code(_plain(default)), values, field.description or ""
