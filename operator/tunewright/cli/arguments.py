"""Reads what is typed where a plain type would let nonsense through. Called by `app` and the commands."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated

import typer

from tunewright.errors import InvalidInput


def path_for(name: str) -> Callable[[str], Path]:
    """Return a reader of paths for one option: an empty text, such as an unset variable, is not this folder."""

    def read(text: str) -> Path:
        if not text.strip():
            raise InvalidInput.of(name, text, "is empty: name a file or folder (this folder is called .)")
        return Path(text)

    return read


def refuse_twice(name: str, given: Iterable[object]) -> None:
    """Raise `InvalidInput` for the first value that is given again."""
    seen = set()
    for value in given:
        if value in seen:
            raise InvalidInput.of(name, value, "is given twice: remove one")
        seen.add(value)


LedgerFile = Annotated[
    Path, typer.Argument(metavar="LEDGER", help="A run.jsonl, local or exported.", parser=path_for("LEDGER"))
]


def namespace_and_name(text: str) -> tuple[str, str]:
    """Split NAMESPACE/NAME; raise `InvalidInput` where either is missing."""
    namespace, _, name = text.partition("/")
    if not (namespace and name):
        raise InvalidInput.of("NAMESPACE/NAME", text, "must be a namespace and a name, such as default/quickstart")
    return namespace, name
