"""What a finished run leaves beside its ledger: the result and the best configuration, ready to launch."""

import json
import os
import shutil
from pathlib import Path

from tunewright.backends import RENDERERS
from tunewright.domain.problem import TuningProblem
from tunewright.errors import TuningError
from tunewright.planner.summary import Summary

RESULT_NAMES = ("result.json", *RENDERERS)


def write_outputs(folder: Path, problem: TuningProblem, summary: Summary) -> list[str]:
    """Write the files, each at once or not at all; return their names. Without a winner only the result is written."""
    texts = {"result.json": json.dumps(summary.to_json(), indent=2) + "\n"}
    if summary.winner is not None:
        texts |= {name: render(problem, summary.winner) for name, render in RENDERERS.items()}
    for name, text in texts.items():
        _write(folder / name, text)
    return list(texts)


def discard_outputs(folder: Path) -> None:
    """Remove what an earlier run left beside its ledger, and nothing else."""
    for name in RESULT_NAMES:
        (folder / name).unlink(missing_ok=True)
    for trial in (folder / "trials").glob("t*-*"):
        shutil.rmtree(trial)


def _write(path: Path, text: str) -> None:
    beside = path.with_name(path.name + ".new")
    try:
        beside.write_text(text, encoding="utf-8")
        os.replace(beside, path)
    except OSError as error:
        raise TuningError(f"{path}: cannot be written: {error.strerror}") from None
