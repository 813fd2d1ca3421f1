"""Reads what is typed where a plain type would let nonsense through. Called by `app` and the commands."""

import re
from collections.abc import Callable, Iterable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tunewright.errors import InvalidInput

DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class Panel(StrEnum):
    """Headings under which `tunewright --help` lists the commands."""

    BEFORE = "Before a run"
    RUNNING = "While it goes on"
    AFTER = "From its ledger"
    MODEL = "How true the model is"
    CLUSTER = "In the cluster"


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
    """Split NAMESPACE/NAME; raise `InvalidInput` where either is missing, or no name in Kubernetes."""
    namespace, _, name = text.partition("/")
    if not (DNS_LABEL.fullmatch(namespace) and DNS_LABEL.fullmatch(name)):
        raise InvalidInput.of("NAMESPACE/NAME", text, "must be a namespace and a name, such as default/quickstart")
    return namespace, name
