"""`tunewright compare A B …`: what each run found after so many trials, and what it cost."""

import string
from collections.abc import Callable, Sequence
from pathlib import Path

from tunewright.adapters.ledger.file import read_ledger
from tunewright.cli.console import output, print_json
from tunewright.cli.tables import table
from tunewright.domain.value import whole_number
from tunewright.errors import InvalidInput
from tunewright.planner.comparison import RunFigures, run_figures

MOST_RUNS = 8
"""Columns that fit beside the names of the figures."""
MOST_TRIALS = 10_000


def run_compare(paths: Sequence[Path], after: str, *, json_output: bool) -> None:
    """Print one column for each ledger, or JSON."""
    if not 2 <= len(paths) <= MOST_RUNS:
        raise InvalidInput.of("LEDGER", f"{len(paths)} given", f"name two to {MOST_RUNS} ledgers")
    marks = _marks(after)
    runs = [run_figures(read_ledger(path), marks) for path in paths]
    if json_output:
        print_json({"runs": [{"ledger": str(path), **run.to_json()} for path, run in zip(paths, runs, strict=True)]})
        return
    _print(paths, runs)


def _marks(text: str) -> list[int]:
    marks = [whole_number(part.strip(), least=1, most=MOST_TRIALS) for part in text.split(",")]
    found = [mark for mark in marks if mark is not None]
    if len(found) != len(marks):
        raise InvalidInput.of("--after", text, "must be numbers of trials, such as 5,10,20,30")
    return found


def _print(paths: Sequence[Path], runs: Sequence[RunFigures]) -> None:
    letters = list(string.ascii_uppercase[: len(runs)])
    for letter, path, run in zip(letters, paths, runs, strict=True):
        again = ", a rerun" if run.rerun_of else ""
        output.print(f"{letter}  {path}: {run.run}, {run.model or 'no LLM'}{again}", soft_wrap=True, markup=False)
    if len({run.problem_digest for run in runs}) > 1:
        output.print("These runs tune different problems: their figures say nothing about each other.")
    made = table("", *letters, right=letters)
    for name, figure in _rows(runs[0]):
        made.add_row(name, *(figure(run) for run in runs))
    output.print(made)
    for letter, run in zip(letters, runs, strict=True):
        if run.best_configuration:
            output.print(f"{letter}  measured best: {run.best_configuration}", soft_wrap=True, markup=False)


_Figure = Callable[[RunFigures], str]


def _rows(first: RunFigures) -> list[tuple[str, _Figure]]:
    """Name the figures, those of kinds that are never mixed in rows of their own."""
    return [
        *(_after_row(place, mark.trials) for place, mark in enumerate(first.best_after)),
        ("measured, tokens/s/GPU", lambda run: _speed(run.best_measured)),
        ("trials", lambda run: str(run.trials)),
        ("  answered by a ledger", lambda run: str(run.recorded_trials)),
        ("  proposed by the LLM", lambda run: str(run.llm_trials)),
        ("GPU hours", lambda run: f"{run.gpu_hours:,.2f}"),
        ("  not used again", lambda run: f"{run.recorded_gpu_hours:,.2f}"),
        ("LLM calls", lambda run: str(run.llm_calls)),
        ("LLM tokens", lambda run: f"{run.llm_tokens:,}"),
        ("LLM cost, USD", lambda run: f"{run.llm_cost_usd:,.4f}"),
        ("LLM seconds", lambda run: f"{run.llm_seconds:,.1f}"),
        ("hypotheses", _hypotheses),
        ("ended", lambda run: run.finish_reason or "not yet"),
    ]


def _after_row(place: int, trials: int) -> tuple[str, _Figure]:
    return f"projected after {trials} trials, tokens/s/GPU", lambda run: _speed(run.best_after[place].projected)


def _hypotheses(run: RunFigures) -> str:
    return ", ".join(f"{item.count} {item.status}" for item in run.hypotheses) or "-"


def _speed(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"
