"""The `tunewright` command: its subcommands and how their errors reach a person. Called by `entry`.

Commands import what they need when they run, so that `--help` and `check` stay quick.
"""

import sys
from pathlib import Path
from typing import Annotated

import typer

from tunewright import __version__
from tunewright.cli.app_carrying import carrying
from tunewright.cli.arguments import LedgerFile, Panel, path_for
from tunewright.cli.console import print_error
from tunewright.cli.streams import drop_unwritable
from tunewright.errors import TuningError

BAD_INPUT = 2

app = typer.Typer(
    name="tunewright",
    help="Find the fastest LLM-training configuration for a model on a cluster of AMD Instinct GPUs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(carrying)

SpecFile = Annotated[Path, typer.Argument(metavar="FILE", help="A TuningRun as YAML.", parser=path_for("FILE"))]
ModelConfig = Annotated[
    Path | None,
    typer.Option(
        metavar="CONFIG.json",
        help="The Hugging Face config.json that FILE's configMapKeyRef stands for.",
        parser=path_for("--model-config"),
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


@app.callback(invoke_without_command=True)
def main(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    """Show the version when asked."""
    if version:
        typer.echo(__version__)
        raise typer.Exit


@app.command(rich_help_panel=Panel.BEFORE)
def check(file: SpecFile, model_config: ModelConfig = None) -> None:
    """Validate FILE: every problem, or one line that says it is fine."""
    from tunewright.cli.check import run_check

    run_check(file, model_config)


@app.command(rich_help_panel=Panel.BEFORE)
def plan(
    file: SpecFile,
    json_output: Json = False,
    nodes: Annotated[
        str, typer.Option(metavar="N,N", help="Plan for several node counts side by side, such as 4,8,16.")
    ] = "",
    top: Annotated[int, typer.Option(min=1, max=1000, help="Candidates to show.")] = 10,
    model_config: ModelConfig = None,
) -> None:
    """Filter and rank the whole legal space of FILE. Needs no GPU and no cluster."""
    from tunewright.cli.plan import run_plan

    run_plan(file, model_config, json_output=json_output, nodes=nodes, top=top)


@app.command(rich_help_panel=Panel.BEFORE)
def explain(
    file: SpecFile,
    json_output: Json = False,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="AXIS=VALUE", help="Change the baseline, such as tp=2.")
    ] = None,
    timeline: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Draw the pipeline over time: SVG; FILE.json: for Perfetto.",
            parser=path_for("--timeline"),
        ),
    ] = None,
    model_config: ModelConfig = None,
) -> None:
    """Itemise one configuration: launch rules, memory of each stage, parts of the step."""
    from tunewright.cli.explain import run_explain

    run_explain(file, set_ or [], json_output=json_output, timeline=timeline, model_config=model_config)


@app.command(rich_help_panel=Panel.RUNNING)
def run(
    file: SpecFile,
    out: Annotated[
        Path,
        typer.Option(
            metavar="FOLDER",
            help="Folder for the ledger, the result and the best configuration.",
            parser=path_for("--out"),
        ),
    ],
    trials: Annotated[str, typer.Option(help="Where trials run: local or simulated.")] = "local",
    fresh: Annotated[bool, typer.Option("--fresh", help="Discard an earlier run in the same folder.")] = False,
    json_output: Json = False,
    model_config: ModelConfig = None,
) -> None:
    """Search for the best configuration of FILE with trials on this machine or on a stand-in."""
    from tunewright.cli.run import run_search

    run_search(file, out, trials, model_config, fresh=fresh, json_output=json_output)


@app.command(rich_help_panel=Panel.AFTER)
def replay(
    ledger: LedgerFile,
    strict: Annotated[bool, typer.Option("--strict", help="Re-derive every projection from its report too.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Only chain, schema and counters: takes seconds.")] = False,
) -> None:
    """Re-derive every decision of LEDGER; exit 1 and name the first difference if there is one."""
    from tunewright.cli.replay import run_replay

    run_replay(ledger, strict=strict, check=check)


@app.command(rich_help_panel=Panel.AFTER)
def rerun(  # noqa: PLR0913 - options of a command
    ledger: LedgerFile,
    out: Annotated[
        Path,
        typer.Option(metavar="FOLDER", help="Folder for the new ledger and its results.", parser=path_for("--out")),
    ],
    llm: Annotated[str, typer.Option(help="Another LLM, as LiteLLM names it, such as openai/gpt-5.")] = "",
    no_llm: Annotated[bool, typer.Option("--no-llm", help="Explore by the surrogate alone.")] = False,
    api_base: Annotated[str, typer.Option(help="Address of the LLM; default: the provider's.")] = "",
    price: Annotated[str, typer.Option(metavar="IN,OUT", help="USD per million tokens; default: LiteLLM's.")] = "",
    trials: Annotated[str, typer.Option(help="Where trials run that LEDGER cannot answer: local, simulated.")] = "",
    fresh: Annotated[bool, typer.Option("--fresh", help="Discard an earlier run in the same folder.")] = False,
    json_output: Json = False,
) -> None:
    """Repeat the search of LEDGER with another LLM or none, on the reports that are recorded there."""
    from tunewright.cli.rerun import Wanted, run_rerun

    wanted = Wanted(llm=llm, no_llm=no_llm, api_base=api_base, price=price)
    run_rerun(ledger, out, wanted, trials, fresh=fresh, json_output=json_output)


@app.command(rich_help_panel=Panel.AFTER)
def compare(
    ledgers: Annotated[list[Path], typer.Argument(metavar="LEDGER...", help="Two or more run.jsonl.")],
    after: Annotated[str, typer.Option(help="Numbers of trials after which the best is shown.")] = "5,10,20,30",
    json_output: Json = False,
) -> None:
    """Set runs side by side: best found after n trials, GPU hours, tokens, cost, hypotheses."""
    from tunewright.cli.compare import run_compare

    run_compare(ledgers, after, json_output=json_output)


@app.command(rich_help_panel=Panel.AFTER)
def why(
    ledger: LedgerFile,
    trial: Annotated[str, typer.Argument(metavar="TRIAL", help="Such as t0007.")],
    json_output: Json = False,
) -> None:
    """Explain one trial of LEDGER: who proposed it, what was known then, what became of it."""
    from tunewright.cli.why import run_why

    run_why(ledger, trial, json_output=json_output)


@app.command(rich_help_panel=Panel.MODEL)
def accuracy(
    data: Annotated[Path, typer.Argument(metavar="DATA.csv", help="Measurements, one a row.")],
    table_format: Annotated[str, typer.Option("--format", help="Columns: published or vtrain.")] = "published",
    json_output: Json = False,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE.svg", help="Draw estimated against measured.", parser=path_for("--plot")),
    ] = None,
) -> None:
    """Compare the model with measurements: errors, ranking, coverage, worst rows."""
    from tunewright.cli.accuracy import run_accuracy

    run_accuracy(data, table_format=table_format, json_output=json_output, plot=plot)


@app.command(rich_help_panel=Panel.MODEL)
def calibrate(
    data: Annotated[list[Path], typer.Argument(metavar="DATA.csv...", help="Tables in either format.")],
    accelerator: Annotated[str, typer.Option(help="Only this accelerator of the catalog.")] = "",
    leave_out: Annotated[str, typer.Option(help="Judge on rows not fitted, and set intervals: source or model.")] = "",
    write: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Accelerator files to write the numbers into.", parser=path_for("--write")),
    ] = None,
    json_output: Json = False,
) -> None:
    """Fit the calibrated numbers of the catalog to measurements; the same tables give the same numbers."""
    from tunewright.cli.calibrate import run_calibrate

    run_calibrate(data, accelerator=accelerator, left_out=leave_out, write=write, json_output=json_output)


@app.command(rich_help_panel=Panel.CLUSTER)
def gc(
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Only here; default: all namespaces.")] = "",
    run: Annotated[str, typer.Option(metavar="NAME", help="Only what is left of the TuningRun NAME.")] = "",
    delete: Annotated[bool, typer.Option("--delete", help="Remove orphans.")] = False,
    kept: Annotated[bool, typer.Option("--kept", help="With --delete: also what results.keep kept.")] = False,
    json_output: Json = False,
) -> None:
    """List what outlived its TuningRun in the cluster: kept results and ledgers, and orphans."""
    from tunewright.cli.gc import run_gc

    run_gc(namespace, run, delete=delete, kept=kept, json_output=json_output)


def run_app() -> None:
    """Run a command; turn an expected error into lines on standard error and exit code 2."""
    try:
        code = _exit_code()
        sys.stdout.flush()
    except OSError as error:
        unwritable = drop_unwritable()
        if not unwritable:
            raise
        code = _told(error, " and ".join(unwritable))
    sys.exit(code)


def _exit_code() -> int | str | None:
    try:
        app()
    except SystemExit as done:
        return done.code
    except TuningError as error:
        print_error(error)
        return BAD_INPUT
    except KeyboardInterrupt:
        return 130
    return 0


def _told(error: OSError, unwritable: str) -> int:
    """Say what could not be printed. A reader that has gone, such as `head`, has what it wanted."""
    if isinstance(error, BrokenPipeError):
        return 1
    print_error(TuningError(f"{unwritable}: cannot be written: {error.strerror}"))
    return BAD_INPUT
