"""`tunewright replay LEDGER`: every decision derived again, without a GPU and without an LLM."""

import sys
from pathlib import Path

import typer

from tunewright.adapters.ledger.file import read_ledger
from tunewright.cli.console import output
from tunewright.planner.records import Round
from tunewright.planner.replay import replay

DIFFERENT = 1


def run_replay(path: Path) -> None:
    """Print "identical", or the first difference with exit code 1."""
    records = read_ledger(path)
    difference = replay(records)
    if difference is not None:
        sys.stdout.write(f"different: {path}:{str(difference).removeprefix('line ')}\n")
        raise typer.Exit(DIFFERENT)
    rounds = sum(isinstance(record, Round) for record in records)
    output.print(f"identical: {rounds} rounds of decisions from {len(records)} records", soft_wrap=True)
