"""`tunewright export`: a run of the cluster as a file that `replay` reads, and the best of a run, ready to launch."""

import asyncio
import sys
from pathlib import Path

from tunewright.adapters.ledger.file import read_ledger
from tunewright.adapters.ledger.lines import decode_lines
from tunewright.backends import RENDERERS
from tunewright.cli.arguments import namespace_and_name
from tunewright.cli.console import messages
from tunewright.cli.outputs import replace_text, write_text
from tunewright.domain.axes import describe
from tunewright.errors import InvalidInput
from tunewright.report.story import story_of


def run_export_best(ledger: Path, folder: Path) -> None:
    """Write the best configuration of a ledger for every launcher, and the variables to set for it."""
    story = story_of(read_ledger(ledger))
    if story.best is None:
        raise InvalidInput.of("LEDGER", str(ledger), "has no best configuration yet: nothing was projected")
    problem, config = story.problem, story.best.config
    texts = {name: render(problem, config) for name, render in RENDERERS.items()}
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput.of("--out", str(folder), f"cannot be made: {error.strerror}") from None
    for name, text in texts.items():
        replace_text(folder / name, text)
    label = ", simulated" if story.summary.simulated else ""
    kind = "measured" if story.summary.best_measured else "projected"
    messages.print(f"best{label}, {kind}: {describe(config)}", soft_wrap=True, markup=False)
    messages.print(f"wrote {', '.join(texts)} to {folder}", soft_wrap=True, markup=False)


def run_export_ledger(name: str, out: Path | None) -> None:
    """Read the run's shards with your kubeconfig, check them, and write them as JSON lines."""
    from tunewright.adapters.kube.export import exported_ledger  # the cluster's client, which files need not

    text = asyncio.run(exported_ledger(*namespace_and_name(name)))
    decode_lines(text, name)
    if out is None:
        sys.stdout.write(text)
        return
    write_text(out, text, "--out")
    messages.print(f"wrote {out}", soft_wrap=True)
