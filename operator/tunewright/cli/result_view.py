"""The table at the end of a run: figures of different kinds in columns of their own."""

from rich.console import RenderableType

from tunewright.cli.console import output
from tunewright.cli.hypotheses_view import hypotheses_table
from tunewright.cli.tables import table, titled
from tunewright.domain.problem import TuningProblem
from tunewright.planner.summary import CandidateRow, Summary

MOST_ROWS = 12
MOST_FILTERED_ROWS = 4


def print_result(problem: TuningProblem, summary: Summary) -> None:
    """Print answer, candidates and what the run cost."""
    if summary.candidates:
        output.print(_candidates(summary))
    if summary.hypotheses:
        output.print(hypotheses_table(summary.hypotheses))
    output.print(_counts(summary), soft_wrap=True)
    output.print(f"\n{problem.model.name}: {summary.answer}", soft_wrap=True)


def _candidates(summary: Summary) -> RenderableType:
    numbers = ("memory", "estimated", "projected", "measured", "bias")
    made = table("profile", "configuration", *numbers, right=numbers)
    tried = [row for row in summary.candidates if not row.filtered]
    filtered = [row for row in summary.candidates if row.filtered]
    for row in [*tried[:MOST_ROWS], *filtered[:MOST_FILTERED_ROWS]]:
        made.add_row(row.trial, row.configuration, *_figures(row))
    label = " (simulated)" if summary.simulated else ""
    return titled(f"tokens/s/GPU by kind of figure{label}", made)


def _figures(row: CandidateRow) -> tuple[str, ...]:
    return (
        "-" if row.memory_percent is None else f"{row.memory_percent:.0f} %",
        "filtered" if row.filtered else f"{row.estimated:,.0f}",
        "-" if row.projected is None else f"{row.projected:,.0f}",
        "-" if row.measured is None else f"{row.measured:,.0f}",
        "-" if row.bias_percent is None else f"{row.bias_percent:+.1f} %",
    )


def _counts(summary: Summary) -> str:
    counters, spent = summary.counters, summary.spent
    return (
        f"\n{counters.filtered} of {counters.proposed} proposals filtered by memory, {counters.pruned} pruned, "
        f"{counters.reused} projected from a profile that existed, {counters.rejected} rejected; "
        f"{counters.profiles} profiles, {counters.measured} configurations measured, {counters.failed} trials failed; "
        f"{spent.gpu_hours:.2f} GPU hours spent, {spent.gpu_hours_saved:.2f} saved"
    )
