"""Where the command line prints: data on standard output, everything else on standard error."""

import json
import sys
from typing import Any

from rich.console import Console

from tunewright.errors import InvalidInput, TuningError

WIDTH = 100

_terminal_width = {} if sys.stdout.isatty() else {"width": WIDTH}
output = Console(highlight=False, soft_wrap=False, **_terminal_width)  # type: ignore[arg-type]
messages = Console(stderr=True, highlight=False)


def print_error(error: TuningError) -> None:
    """Print each problem on its own line, unwrapped, so that scripts can read it."""
    lines = [str(problem) for problem in error.problems] if isinstance(error, InvalidInput) else [str(error)]
    for line in lines:
        sys.stderr.write(f"error: {line}\n")


def print_json(document: dict[str, Any]) -> None:
    """Print one JSON document."""
    sys.stdout.write(json.dumps(document, indent=2, allow_nan=False) + "\n")
