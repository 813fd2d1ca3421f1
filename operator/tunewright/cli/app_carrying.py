"""Commands that carry a run elsewhere: from what people have, to their managers, and into what they launch with.

Part of `app`, which adds them to its own.
"""

from pathlib import Path
from typing import Annotated

import typer

from tunewright.cli.arguments import LedgerFile, Panel, path_for

carrying = typer.Typer()
export_app = typer.Typer(help="Write parts of a run to files.", no_args_is_help=True)
carrying.add_typer(export_app, name="export", rich_help_panel=Panel.AFTER)


@carrying.command(rich_help_panel=Panel.BEFORE)
def init(  # noqa: PLR0913 - options of a command
    from_primus: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A Primus experiment YAML.", parser=path_for("--from-primus"))
    ] = None,
    from_megatron: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Megatron-LM arguments as text.", parser=path_for("--from-megatron")),
    ] = None,
    model_config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A Hugging Face config.json.", parser=path_for("--model-config")),
    ] = None,
    model: Annotated[str, typer.Option(metavar="PRESET", help="A model of the catalog.")] = "",
    accelerator: Annotated[str, typer.Option(metavar="PRESET", help="An accelerator of the catalog.")] = "mi355x",
    nodes: Annotated[
        int | None, typer.Option(min=1, max=16384, help="Default: the fewest that hold the model.")
    ] = None,
    gpus_per_node: Annotated[int, typer.Option(min=1, max=256, help="Accelerators of a node.")] = 8,
    sequence_length: Annotated[int | None, typer.Option(min=1, max=2**24, help="Default: the source's.")] = None,
    global_batch_size: Annotated[int | None, typer.Option(min=1, max=2**24, help="Default: the source's.")] = None,
    name: Annotated[str, typer.Option(help="Of the TuningRun; default: the model's.")] = "",
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="Default: standard output.", parser=path_for("--out")),
    ] = None,
) -> None:
    """Write a TuningRun to start from, out of what you train with today."""
    from tunewright.cli.init import Options, run_init

    options = Options(
        primus=from_primus,
        megatron=from_megatron,
        model_config=model_config,
        model=model,
        accelerator=accelerator,
        nodes=nodes,
        gpus_per_node=gpus_per_node,
        sequence_length=sequence_length,
        global_batch_size=global_batch_size,
        name=name,
    )
    run_init(options, out)


@carrying.command(rich_help_panel=Panel.AFTER)
def report(
    ledger: LedgerFile,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE.html", help="The page to write.", parser=path_for("--out")),
    ] = None,
    text: Annotated[bool, typer.Option("--text", help="Print the story on the terminal.")] = False,
    trace: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.json", help="Pipelines of best and baseline for Perfetto.", parser=path_for("--trace")
        ),
    ] = None,
) -> None:
    """Tell the whole story of LEDGER: one HTML page that needs nothing else, text, or a trace of the pipelines."""
    from tunewright.cli.report import run_report

    run_report(ledger, out, trace, text=text)


@carrying.command(rich_help_panel=Panel.RUNNING)
def watch(
    name: Annotated[str, typer.Argument(metavar="NAMESPACE/NAME", help="The TuningRun.")],
) -> None:
    """Show a TuningRun of the cluster while it goes on; exit 1 if it does not succeed."""
    from tunewright.cli.watch import run_watch

    if not run_watch(name):
        raise typer.Exit(1)


@carrying.command(rich_help_panel=Panel.CLUSTER)
def support_bundle(
    name: Annotated[str, typer.Argument(metavar="NAMESPACE/NAME", help="The TuningRun.")],
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE.tar.gz", help="The archive to write.", parser=path_for("--out"))
    ],
    operator_namespace: Annotated[str, typer.Option(help="Where the operator runs.")] = "tunewright",
) -> None:
    """Collect what explains a TuningRun into one archive: run, ledger, events, Jobs, Pods, logs; no secrets."""
    from tunewright.cli.support_bundle import run_support_bundle

    run_support_bundle(name, out, operator_namespace)


@carrying.command(rich_help_panel=Panel.AFTER)
def apply_to(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Your Primus experiment YAML.", parser=path_for("FILE"))],
    ledger: LedgerFile,
    write: Annotated[bool, typer.Option("--write", help="Change FILE; without it, only show the difference.")] = False,
) -> None:
    """Put the best configuration of LEDGER into your own Primus experiment; comments and other keys stay."""
    from tunewright.cli.apply_to import run_apply_to

    run_apply_to(file, ledger, write=write)


@export_app.command("best")
def export_best(
    ledger: LedgerFile,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder for the launch files.", parser=path_for("--out"))],
) -> None:
    """Write the best configuration of LEDGER for Primus, Megatron-LM and torchtitan, and the variables to set."""
    from tunewright.cli.export import run_export_best

    run_export_best(ledger, out)


@export_app.command("ledger")
def export_ledger(
    name: Annotated[str, typer.Argument(metavar="NAMESPACE/NAME", help="The TuningRun.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="Default: standard output.", parser=path_for("--out")),
    ] = None,
) -> None:
    """Write the ledger of a TuningRun in the cluster as JSON lines."""
    from tunewright.cli.export import run_export_ledger

    run_export_ledger(name, out)
