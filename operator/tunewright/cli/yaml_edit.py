"""Changes keys of a mapping in somebody's YAML and nothing else: no other byte of the text moves. Called by `apply_to`.

ruamel.yaml says where each key and value stands; writing the document anew with it would also change indentation,
`True` and `null` in lines that nobody asked to change.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import yaml as plain_yaml
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import CollectionNode, MappingNode, Node, ScalarNode

from tunewright.errors import InvalidInput

_Edit = tuple[int, int, str]
"""Start, end and what stands there instead."""


def mapping_at(text: str, path: Sequence[str]) -> dict[str, Any]:
    """Return the values of the mapping at `path`; raise `InvalidInput` where there is none."""
    place = _checked(YAML(typ="safe").load, text)
    for key in path:
        place = place.get(key) if isinstance(place, dict) else None
    if place is None and _node_at(text, path) is not None:
        return {}
    if not isinstance(place, dict):
        raise _missing(path)
    return place


def with_values(text: str, path: Sequence[str], values: Mapping[str, Any], remove: frozenset[str]) -> str:
    """Return the text with these values in the mapping at `path`, in place or behind its last key.

    Keys in `remove` that have no new value go. Raises `InvalidInput` where a place cannot be changed alone.
    """
    now, found = mapping_at(text, path), _node_at(text, path)
    if found is None:
        raise _missing(path)
    key, mapping = found
    entries = _entries(mapping) if mapping else {}
    if mapping is not None and mapping.flow_style and entries:
        raise InvalidInput.of(".".join(path), None, "is written in braces: write one key a line")
    changed = {name: value for name, value in values.items() if name not in now or not _same(now[name], value)}
    gone = [name for name in entries if name in remove and name not in values]
    edits = [_deletion(text, *entries[name]) for name in gone]
    edits += [_replacement(text, *entries[name], changed[name]) for name in changed if name in entries]
    added = {name: value for name, value in changed.items() if name not in entries}
    edits += _additions(text, key, mapping, added)
    merged = _applied(text, edits)
    return _verified(merged, path, values)


def _entries(mapping: MappingNode) -> dict[str, tuple[Node, Node]]:
    """Return keys and values by name. Beside a merge key, ruamel.yaml takes one that is given twice."""
    entries: dict[str, tuple[Node, Node]] = {}
    for name, value in mapping.value:
        if str(name.value) in entries:
            raise InvalidInput.of(str(name.value), None, "is given twice: remove one")
        entries[str(name.value)] = name, value
    return entries


def _same(now: object, value: object) -> bool:
    return now == value and type(now) is type(value)


def _checked(read: Any, text: str) -> Any:  # noqa: ANN401 - a parser's own types
    try:
        return read(text)
    except (YAMLError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split()) or "nested too deeply"
        raise InvalidInput.of("FILE", None, f"is not YAML: {reason}") from None


def _missing(path: Sequence[str]) -> InvalidInput:
    return InvalidInput.of(".".join(path), None, "is missing or no mapping: give a Primus experiment YAML")


def _node_at(text: str, path: Sequence[str]) -> tuple[Node, MappingNode | None] | None:
    """Return the key at `path` and its mapping, None for one without a value."""
    node, key = _checked(YAML().compose, text), None
    for name in path:
        pairs = node.value if isinstance(node, MappingNode) else []
        key, node = next(((one, value) for one, value in pairs if one.value == name), (None, None))
    if key is None:
        return None
    if isinstance(node, ScalarNode) and node.tag == "tag:yaml.org,2002:null":
        return key, None
    return (key, node) if isinstance(node, MappingNode) else None


def _colon(text: str, key: Node) -> int:
    """Return where the value of a key may begin: behind its colon."""
    found = re.compile(r"\s*:").match(text, key.end_mark.index)
    return found.end() if found else int(key.end_mark.index)


def _end(node: Node) -> int:
    """Return where a value ends; a block collection ends with its last value, not with the comments behind it."""
    if not isinstance(node, CollectionNode) or node.flow_style or not node.value:
        return int(node.end_mark.index)
    last = node.value[-1]
    return _end(last[1] if isinstance(node, MappingNode) else last)


def _span(text: str, key: Node, value: Node) -> tuple[int, int]:
    """Return start and end of what is written as the value of a key."""
    begin = _colon(text, key)
    if value.start_mark.index < begin:
        alias = re.compile(r"[ \t]*\*[^\s,\]}]+").match(text, begin)
        return (begin, alias.end()) if alias else (begin, begin)
    end = len(text[: _end(value)].rstrip())
    return (begin, begin) if end < begin else (begin, end)


def _own_span(text: str, key: Node, value: Node) -> tuple[int, int]:
    """Return the same for a value that is to change; raise `InvalidInput` where others would change with it."""
    if value.anchor is not None and value.start_mark.index >= _colon(text, key):
        raise InvalidInput.of(str(key.value), None, "has an anchor, so that other keys change with it: write them out")
    return _span(text, key, value)


def _replacement(text: str, key: Node, value: Node, wanted: object) -> _Edit:
    start, end = _own_span(text, key, value)
    lead = re.compile(r"[ \t]+").match(text, start, end)
    return start, end, (lead[0] if lead else " ") + _written(wanted)


def _deletion(text: str, key: Node, value: Node) -> _Edit:
    _, end = _own_span(text, key, value)
    start = text.rfind("\n", 0, key.start_mark.index) + 1
    return start, _line_end(text, end), ""


def _additions(text: str, key: Node, mapping: MappingNode | None, added: Mapping[str, Any]) -> list[_Edit]:
    """Write new keys behind the last one, or below the key of an empty mapping."""
    if not added:
        return []
    newline = "\r\n" if "\r\n" in text else "\n"
    if mapping is None or not mapping.value:
        begin = _colon(text, key)
        end = int(mapping.end_mark.index) if mapping is not None else begin
        indent, at = " " * (key.start_mark.column + 2), _line_end(text, end)
        edits: list[_Edit] = [(begin, end, "")]
    else:
        last_key, last = mapping.value[-1]
        indent, edits = " " * last_key.start_mark.column, []
        at = _line_end(text, _span(text, last_key, last)[1])
    lines = "".join(f"{indent}{name}: {_written(value)}{newline}" for name, value in added.items())
    before = "" if text[at - 1 : at] == "\n" else newline
    return [*edits, (at, at, before + lines)]


def _line_end(text: str, at: int) -> int:
    found = text.find("\n", at)
    return len(text) if found < 0 else found + 1


def _written(value: object) -> str:
    text: str = plain_yaml.safe_dump(value, default_flow_style=True, width=2**16)
    return text.removesuffix("...\n").strip()


def _applied(text: str, edits: Sequence[_Edit]) -> str:
    """Apply edits from the last to the first, so that places stay where they are."""
    for start, end, instead in sorted(edits, key=lambda edit: (edit[0], edit[1]), reverse=True):
        text = text[:start] + instead + text[end:]
    return text


def _verified(merged: str, path: Sequence[str], values: Mapping[str, Any]) -> str:
    """Return the text when it reads as it should; what it holds is somebody's training job."""
    now = mapping_at(merged, path)
    wrong = [name for name, value in values.items() if name not in now or not _same(now[name], value)]
    if wrong:
        raise InvalidInput.of(".".join(path), wrong, "cannot be changed in place: write each key on a line of its own")
    return merged
