"""The LLM's hypotheses as a table: what it expected, what came of it. Called by `result_view`."""

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from tunewright.cli.tables import table, titled
from tunewright.planner.hypotheses import TrackedHypothesis

MOST_ROWS = 12
_LONGEST_MECHANISM = 120


def hypotheses_table(hypotheses: Sequence[TrackedHypothesis]) -> RenderableType:
    """Show the latest hypotheses; their words are the LLM's and are shown as plain text."""
    made = table("round", "status", "axes", "expected", "found", "mechanism", right=("round", "expected", "found"))
    for item in hypotheses[-MOST_ROWS:]:
        made.add_row(
            str(item.round),
            item.status,
            Text(", ".join(item.axes)),
            _percent(item.expected_gain_percent),
            _percent(item.gain_percent),
            Text(_shortened(item.mechanism)),
        )
    confirmed = sum(item.status == "confirmed" for item in hypotheses)
    return titled(f"{confirmed} of {len(hypotheses)} hypotheses of the LLM confirmed", made)


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:+.1f} %"


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_MECHANISM else text[: _LONGEST_MECHANISM - 1] + "…"
