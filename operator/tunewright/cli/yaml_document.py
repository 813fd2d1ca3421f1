"""YAML as a Kubernetes client reads it: plain data, each key once, and of a bounded size. Called by `loading`."""

from pathlib import Path
from typing import Any

import yaml

from tunewright.errors import InvalidInput, printable

MOST_BYTES = 2**20
MOST_NODES = 50_000
"""Values of a document with its aliases written out: a few lines of aliases can stand for billions."""
_TIMESTAMP = "tag:yaml.org,2002:timestamp"
_NULL = "tag:yaml.org,2002:null"
_TEXT = "tag:yaml.org,2002:str"
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_PLAIN = frozenset(f"tag:yaml.org,2002:{kind}" for kind in ("map", "seq", "str", "int", "float", "bool", "null"))
_IN_KEYS = _PLAIN | {"tag:yaml.org,2002:merge", "tag:yaml.org,2002:value"}


def read_yaml(path: Path) -> object:
    """Return the file's single document; raise `InvalidInput` naming file and line."""
    text = read_text(path, "FILE")
    try:
        loader = _PlainLoader(text)
        try:
            node = _single_node(loader)
            if node is None:
                return None
            _Inspection().size(node)
            return loader.construct_document(node)
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        raise InvalidInput.of("FILE", str(path), f"is not YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise InvalidInput.of("FILE", str(path), "is nested too deeply") from None


def _single_node(loader: "_PlainLoader") -> yaml.Node | None:
    """Return the one document that is not empty; a `---` with nothing behind it is common at the end of a file."""
    found = None
    while loader.check_node():
        node = loader.get_node()
        if node is None or (node.tag == _NULL and node.value == ""):
            continue
        if found is not None:
            raise _error("a second document begins: give a single TuningRun", node)
        found = node
    return found


def read_text(path: Path, field: str) -> str:
    """Return a file that a person named as `field`; raise `InvalidInput` where it is none, or far too large."""
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise InvalidInput.of(field, str(path), f"cannot be read: {error.strerror}") from None
    if len(content) > MOST_BYTES:
        raise InvalidInput.of(field, str(path), f"is larger than {MOST_BYTES} bytes: name another file")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise InvalidInput.of(field, str(path), "is not UTF-8 text: name another file") from None


class _PlainLoader(yaml.SafeLoader):
    """Makes JSON's types only. Dates stay text, as they do for the API server, and so does 8:32, which is no 512."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's own way
        first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:  # noqa: ANN401 - PyYAML's signature
        """Return the tag of a node without one."""
        tag = super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]
        return _TEXT if tag in _NUMBERS and ":" in value else tag

    def construct_object(self, node: Any, deep: bool = False) -> Any:  # noqa: ANN401 - PyYAML's signature
        """Turn what a converter stumbles over into an error with a line."""
        try:
            if node.tag in _NUMBERS and ":" in node.value:
                raise ValueError(node.value)
            return super().construct_object(node, deep)
        except (ValueError, TypeError, KeyError, IndexError, OverflowError):
            raise _error(f"{_shown(node)} is no {node.tag.rpartition(':')[2]}", node) from None


class _Inspection:
    """Walks the nodes of a document, each once, before anything is made of them."""

    def __init__(self) -> None:
        self._sizes: dict[int, int] = {}

    def size(self, node: yaml.Node) -> int:
        """Return the values below a node, aliases written out; raise `YAMLError` for what is refused."""
        known = self._sizes.get(id(node))
        if known == 0:
            raise _error("a value holds itself", node)
        if known is None:
            self._sizes[id(node)] = 0
            known = self._sizes[id(node)] = self._measured(node)
        return known

    def _measured(self, node: yaml.Node) -> int:
        if node.tag not in _PLAIN:
            raise _error(f"{printable(node.tag)} is not plain data", node)
        total = 1
        if isinstance(node, yaml.SequenceNode):
            total += sum(self.size(item) for item in node.value)
        elif isinstance(node, yaml.MappingNode):
            _check_keys(node)
            total += sum(1 + self.size(value) for _, value in node.value)
        if total > MOST_NODES:
            raise _error(f"stands for more than {MOST_NODES} values", node)
        return total


def _check_keys(node: yaml.MappingNode) -> None:
    seen = set()
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode) or key.tag not in _IN_KEYS:
            raise _error("a key must be text", key)
        if key.value in seen:
            raise _error(f"key {_shown(key)} is given twice: remove one", key)
        seen.add(key.value)


def _shown(node: yaml.Node) -> str:
    return printable(repr(node.value), 60) if isinstance(node, yaml.ScalarNode) else "a collection"


def _error(message: str, node: yaml.Node) -> yaml.YAMLError:
    return yaml.YAMLError(f"line {node.start_mark.line + 1}: {message}")
