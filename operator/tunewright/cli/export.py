"""`tunewright export ledger NAMESPACE/NAME`: a run of the cluster as a file that `replay` reads."""

import asyncio
import sys
from pathlib import Path

from tunewright.adapters.kube.export import exported_ledger
from tunewright.adapters.ledger.lines import decode_lines
from tunewright.cli.console import messages
from tunewright.errors import InvalidInput, TuningError


def run_export_ledger(name: str, out: Path | None) -> None:
    """Read the run's shards with your kubeconfig, check them, and write them as JSON lines."""
    namespace, separator, run = name.partition("/")
    if not (namespace and separator and run):
        raise InvalidInput.of("NAMESPACE/NAME", name, "must be a namespace and a name, such as default/quickstart")
    text = asyncio.run(exported_ledger(namespace, run))
    decode_lines(text, name)
    if out is None:
        sys.stdout.write(text)
        return
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise TuningError(f"{out}: cannot be written: {error.strerror}") from None
    messages.print(f"wrote {out}", soft_wrap=True)
