"""`tunewright replay LEDGER`: every decision derived again, without a GPU and without an LLM."""

import sys
from pathlib import Path

import typer

import tunewright
from tunewright.adapters.ledger.file import read_ledger
from tunewright.cli.console import output
from tunewright.planner.records import Header, Record, Round
from tunewright.planner.replay import replay

DIFFERENT = 1


def run_replay(path: Path) -> None:
    """Print "identical", or the first difference with exit code 1."""
    records = read_ledger(path)
    difference = replay(records)
    if difference is not None:
        sys.stdout.write(f"different: {path}:{str(difference).removeprefix('line ')}\n")
        _tell_other_version(records[0])
        raise typer.Exit(DIFFERENT)
    rounds = sum(isinstance(record, Round) for record in records)
    output.print(f"identical: {rounds} rounds of decisions from {len(records)} records", soft_wrap=True)


def _tell_other_version(header: Record) -> None:
    """Another version decides by other formulas: a difference then says nothing about the ledger."""
    if isinstance(header, Header) and header.operator_version != tunewright.__version__:
        sys.stdout.write(
            f"the ledger was written by tunewright {header.operator_version}, this is {tunewright.__version__}\n"
        )
