"""The `tunewright` command: its subcommands and how their errors reach a person. Called by `entry`.

Commands import what they need when they run, so that `--help` and `check` stay quick.
"""

import sys
from pathlib import Path
from typing import Annotated

import typer

from tunewright import __version__
from tunewright.cli.console import print_error
from tunewright.errors import TuningError

BAD_INPUT = 2

app = typer.Typer(
    name="tunewright",
    help="Find the fastest LLM-training configuration for a model on a cluster of AMD Instinct GPUs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
export_app = typer.Typer(help="Write parts of a cluster's run to files.", no_args_is_help=True)
app.add_typer(export_app, name="export")

SpecFile = Annotated[Path, typer.Argument(metavar="FILE", help="A TuningRun as YAML.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


@app.callback(invoke_without_command=True)
def main(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    """Show the version when asked."""
    if version:
        typer.echo(__version__)
        raise typer.Exit


@app.command()
def check(file: SpecFile) -> None:
    """Validate FILE: every problem, or one line that says it is fine."""
    from tunewright.cli.check import run_check

    run_check(file)


@app.command()
def plan(
    file: SpecFile,
    json_output: Json = False,
    nodes: Annotated[str, typer.Option(help="Plan for several node counts side by side, such as 4,8,16.")] = "",
    top: Annotated[int, typer.Option(min=1, max=1000, help="Candidates to show.")] = 10,
) -> None:
    """Filter and rank the whole legal space of FILE. Needs no GPU and no cluster."""
    from tunewright.cli.plan import run_plan

    run_plan(file, json_output=json_output, nodes=nodes, top=top)


@app.command()
def explain(
    file: SpecFile,
    json_output: Json = False,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="AXIS=VALUE", help="Change the baseline, such as tp=2.")
    ] = None,
) -> None:
    """Itemise one configuration: launch rules, memory of each stage, parts of the step."""
    from tunewright.cli.explain import run_explain

    run_explain(file, set_ or [], json_output=json_output)


@app.command()
def run(
    file: SpecFile,
    out: Annotated[Path, typer.Option(help="Folder for the ledger, the result and the best configuration.")],
    trials: Annotated[str, typer.Option(help="Where trials run: local or simulated.")] = "local",
    fresh: Annotated[bool, typer.Option("--fresh", help="Discard an earlier run in the same folder.")] = False,
    json_output: Json = False,
) -> None:
    """Search for the best configuration of FILE with trials on this machine or on a stand-in."""
    from tunewright.cli.run import run_search

    run_search(file, out, trials, fresh=fresh, json_output=json_output)


@app.command()
def replay(
    ledger: Annotated[Path, typer.Argument(metavar="LEDGER", help="A run.jsonl, local or exported.")],
) -> None:
    """Re-derive every decision of LEDGER; exit 1 and name the first difference if there is one."""
    from tunewright.cli.replay import run_replay

    run_replay(ledger)


@app.command()
def accuracy(
    data: Annotated[Path, typer.Argument(metavar="DATA.csv", help="Measurements, one a row.")],
    table_format: Annotated[str, typer.Option("--format", help="Columns: published or vtrain.")] = "published",
    json_output: Json = False,
    plot: Annotated[Path | None, typer.Option(help="Draw estimated against measured as SVG.")] = None,
) -> None:
    """Compare the model with measurements: errors, ranking, coverage, worst rows."""
    from tunewright.cli.accuracy import run_accuracy

    run_accuracy(data, table_format=table_format, json_output=json_output, plot=plot)


@app.command()
def calibrate(
    data: Annotated[list[Path], typer.Argument(metavar="DATA.csv...", help="Tables in either format.")],
    accelerator: Annotated[str, typer.Option(help="Only this accelerator of the catalog.")] = "",
    leave_out: Annotated[str, typer.Option(help="Judge on rows not fitted, and set intervals: source or model.")] = "",
    write: Annotated[Path | None, typer.Option(help="Folder of accelerator files to write the numbers into.")] = None,
    json_output: Json = False,
) -> None:
    """Fit the calibrated numbers of the catalog to measurements; the same tables give the same numbers."""
    from tunewright.cli.calibrate import run_calibrate

    run_calibrate(data, accelerator=accelerator, left_out=leave_out, write=write, json_output=json_output)


@export_app.command("ledger")
def export_ledger(
    name: Annotated[str, typer.Argument(metavar="NAMESPACE/NAME", help="The TuningRun.")],
    out: Annotated[Path | None, typer.Option(help="File to write; default: standard output.")] = None,
) -> None:
    """Write the ledger of a TuningRun in the cluster as JSON lines."""
    from tunewright.cli.export import run_export_ledger

    run_export_ledger(name, out)


def run_app() -> None:
    """Run a command; turn an expected error into lines on standard error and exit code 2."""
    try:
        app()
    except TuningError as error:
        print_error(error)
        sys.exit(BAD_INPUT)
    except KeyboardInterrupt:
        sys.exit(130)
