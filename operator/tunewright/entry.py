"""The `tunewright` command. Turns a missing extra into an instruction before anything heavy is imported."""

import sys


def main() -> None:
    """Run the command line."""
    try:
        from tunewright.cli.app import run_app
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] == "tunewright":
            raise
        sys.exit(f"tunewright: the module {error.name!r} is missing: pip install 'tunewright[cli]'")
    run_app()
