"""The `tunewright` command, put together: the command line and the operator, which know nothing of each other.

Turns a missing extra into an instruction before anything heavy is imported.
"""

import sys
from typing import NoReturn


def main() -> None:
    """Run the command line."""
    try:
        from tunewright.cli.app import app, run_app
    except ModuleNotFoundError as error:
        _explain_missing(error, "cli")
    app.command()(operator)
    run_app()


def operator(namespace: str = "") -> None:
    """Watch TuningRun resources and tune them; NAMESPACE is a list such as a,b (default: the whole cluster)."""
    try:
        from tunewright.controller import run
    except ModuleNotFoundError as error:
        _explain_missing(error, "operator")
    run(namespaces=tuple(part for part in namespace.split(",") if part))


def _explain_missing(error: ModuleNotFoundError, extra: str) -> NoReturn:
    if (error.name or "").split(".")[0] == "tunewright":
        raise error
    sys.exit(f"tunewright: the module {error.name!r} is missing: pip install 'tunewright[{extra}]'")


if __name__ == "__main__":
    main()
