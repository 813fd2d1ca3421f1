"""pydantic's JSON schema into the structural schema that a CRD takes. Called by `crd`.

The API server refuses `$ref`, `anyOf` with null and numeric `exclusiveMinimum`, and needs upper limits on every list,
map and string that a CEL rule can reach; titles and null defaults are noise. Defaults inside list items would keep
GitOps tools out of sync for ever, so they are refused here.
"""

from collections.abc import Mapping
from typing import Any

Schema = dict[str, Any]

MAX_TEXT = 4096
_DROPPED = frozenset({"title", "additionalProperties", "$defs", "default", "const"})


def structural(schema: Mapping[str, Any], *, defaults: bool = True) -> Schema:
    """Convert a model's JSON schema; raise `ValueError` for what a CRD cannot say. A status has no `defaults`."""
    source = schema if defaults else _undefaulted(schema)
    return _convert(source, source.get("$defs", {}), inside_list=False)


def _undefaulted(schema: Any) -> Any:  # noqa: ANN401 - any JSON
    if isinstance(schema, Mapping):
        return {key: _undefaulted(value) for key, value in schema.items() if key != "default"}
    return [_undefaulted(item) for item in schema] if isinstance(schema, list) else schema


def _convert(schema: Mapping[str, Any], definitions: Mapping[str, Any], *, inside_list: bool) -> Schema:
    resolved = _resolve(schema, definitions)
    result = {key: value for key, value in resolved.items() if key not in _DROPPED}
    _exclusive_limits(result)
    if "const" in resolved:
        result["enum"] = [resolved["const"]]
    if "properties" in resolved:
        result["properties"] = {
            name: _convert(item, definitions, inside_list=inside_list) for name, item in resolved["properties"].items()
        }
    elif resolved.get("type") == "object":
        _map_schema(result, resolved, definitions)
    if resolved.get("type") == "array":
        _list_schema(result, resolved, definitions)
    if resolved.get("type") == "string" and "enum" not in result:
        result.setdefault("maxLength", MAX_TEXT)
    return _with_default(result, resolved, inside_list)


def _resolve(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Schema:
    """Put the referenced model in place, and drop the null alternative of an optional field."""
    merged = dict(schema)
    if "anyOf" in merged:
        options = [option for option in merged.pop("anyOf") if option.get("type") != "null"]
        if len(options) != 1:
            raise ValueError(f"a CRD field has one type: {schema}")
        merged = {**options[0], **merged}
    if "$ref" in merged:
        target = definitions[merged.pop("$ref").rsplit("/", 1)[1]]
        merged = {**_resolve(target, definitions), **merged}
    return merged


def _exclusive_limits(result: Schema) -> None:
    """OpenAPI 3.0 has a flag where JSON schema has a number."""
    for limit, flag in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if flag in result:
            result[limit] = result[flag]
            result[flag] = True


def _map_schema(result: Schema, resolved: Mapping[str, Any], definitions: Mapping[str, Any]) -> None:
    """Take the type of the values; what keys look like is said by a rule, for a structural schema cannot."""
    patterned = list(resolved.get("patternProperties", {}).values())
    values = patterned[0] if len(patterned) == 1 else resolved.get("additionalProperties")
    if not isinstance(values, Mapping):
        raise ValueError(f"an object needs properties or typed values: {resolved}")
    result["additionalProperties"] = _convert(values, definitions, inside_list=True)
    for described in ("propertyNames", "patternProperties"):
        result.pop(described, None)
    if "maxProperties" not in result:
        raise ValueError(f"a map needs max_length: {resolved}")


def _list_schema(result: Schema, resolved: Mapping[str, Any], definitions: Mapping[str, Any]) -> None:
    if "maxItems" not in result:
        raise ValueError(f"a list needs max_length: {resolved}")
    result["items"] = _convert(resolved["items"], definitions, inside_list=True)


def _with_default(result: Schema, resolved: Mapping[str, Any], inside_list: bool) -> Schema:
    """Objects default to empty and let their fields default; empty lists and maps need no default at all."""
    default = resolved.get("default")
    if default is None or default in ("", [], {}):
        return result
    if inside_list:
        raise ValueError(f"no default inside a list: {resolved}")
    result["default"] = {} if isinstance(default, Mapping) else default
    return result
