"""The `tunewright` command, put together: the command line and the operator, which know nothing of each other.

Turns a missing extra into an instruction before anything heavy is imported.
"""

import os
import sys
from typing import NoReturn

from tunewright.errors import InvalidInput


def main() -> None:
    """Run the command line."""
    # The search solves many small systems: threads would cost more than they bring, and hold up an operator's loop.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from tunewright.cli.streams import prepare_streams

    prepare_streams()
    try:
        from tunewright.cli.app import app, run_app
        from tunewright.cli.arguments import Panel
    except ModuleNotFoundError as error:
        _explain_missing(error, "cli")
    app.command(rich_help_panel=Panel.CLUSTER)(operator)
    run_app()


def operator(namespace: str | None = None) -> None:
    """Watch the cluster's TuningRuns and tune them. --namespace: a list such as a,b; default: the whole cluster."""
    namespaces = () if namespace is None else _namespaces(namespace)
    try:
        from tunewright.controller import run
    except ModuleNotFoundError as error:
        _explain_missing(error, "operator")
    run(namespaces=namespaces)


def _namespaces(text: str) -> tuple[str, ...]:
    """Read a list of names. An empty one is refused: an unset variable would mean the whole cluster."""
    from tunewright.cli.arguments import DNS_LABEL

    names = tuple(text.split(","))
    wrong = [name for name in names if not DNS_LABEL.fullmatch(name)]
    if wrong or len(set(names)) < len(names):
        remedy = "must be names of namespaces, each once, such as team-a,team-b (for the whole cluster leave it out)"
        raise InvalidInput.of("--namespace", text, remedy)
    return names


def _explain_missing(error: ModuleNotFoundError, extra: str) -> NoReturn:
    if (error.name or "").split(".")[0] == "tunewright":
        raise error
    sys.exit(f"tunewright: the module {error.name!r} is missing: pip install 'tunewright[{extra}]'")


if __name__ == "__main__":
    main()
