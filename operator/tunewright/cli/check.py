"""`tunewright check FILE`."""

from pathlib import Path

from tunewright.cli.console import output
from tunewright.cli.loading import load
from tunewright.domain.axes import describe


def run_check(path: Path, model_config: Path | None = None) -> None:
    """Accept the file and say what it asks for; every problem is raised as `InvalidInput` or its kin."""
    accepted = load(path, model_config)
    counts = accepted.space.counts
    output.print(
        f"{path}: valid; {counts.legal:,} legal configurations, {counts.fitting:,} fit; "
        f"baseline {describe(accepted.settings.baseline)}",
        soft_wrap=True,
    )
