"""Files that commands write: what a finished run leaves beside its ledger, ready to launch, and named ones."""

import json
import os
import shutil
import tempfile
from pathlib import Path

from tunewright.backends import RENDERERS
from tunewright.domain.problem import TuningProblem
from tunewright.errors import InvalidInput, TuningError
from tunewright.planner.summary import Summary

RESULT_NAMES = ("result.json", *RENDERERS)


def write_outputs(folder: Path, problem: TuningProblem, summary: Summary) -> list[str]:
    """Write the files, each at once or not at all; return their names. Without a winner only the result is written."""
    texts = {"result.json": json.dumps(summary.to_json(), indent=2) + "\n"}
    if summary.winner is not None:
        texts |= {name: render(problem, summary.winner) for name, render in RENDERERS.items()}
    for name, text in texts.items():
        replace_text(folder / name, text)
    return list(texts)


def check_folder(folder: Path, ledger_name: str) -> None:
    """Raise `InvalidInput` where a run could not leave its files, before anything is measured or removed."""
    try:
        for place in (folder, folder / "trials"):
            if place.exists() and not place.is_dir():
                raise InvalidInput.of("--out", str(place), "is not a folder: choose another --out")
        for name in (ledger_name, *RESULT_NAMES):
            if (folder / name).is_dir():
                remedy = "is a folder, and the name of a file of the run: choose another --out"
                raise InvalidInput.of("--out", str(folder / name), remedy)
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        remedy = f"cannot be written: {error.strerror}; choose another --out"
        raise InvalidInput.of("--out", str(folder), remedy) from None


def discard_outputs(folder: Path) -> None:
    """Remove what an earlier run left beside its ledger, and nothing else."""
    try:
        for name in RESULT_NAMES:
            (folder / name).unlink(missing_ok=True)
        for trial in (folder / "trials").glob("t*-*"):
            _remove(trial)
    except OSError as error:
        remedy = f"cannot be removed: {error.strerror}; choose another --out"
        raise InvalidInput.of("--fresh", error.filename or str(folder), remedy) from None


def write_text(path: Path, text: str, option: str) -> None:
    """Write a file that `option` asked for; raise `InvalidInput` with the reason when that fails."""
    _write(path, text, option, "w")


def write_new_text(path: Path, text: str, option: str) -> None:
    """Do the same for a file that a person goes on with by hand: raise also where there is one, as it may be theirs."""
    try:
        _write(path, text, option, "x")
    except FileExistsError:
        raise InvalidInput.of(option, str(path), "is there already: remove it, or name another file") from None


def _write(path: Path, text: str, option: str, mode: str) -> None:
    try:
        with path.open(mode, encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise
    except OSError as error:
        raise InvalidInput.of(option, str(path), f"cannot be written: {error.strerror}; name another file") from None


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def replace_text(path: Path, text: str) -> None:
    """Write a file at once or not at all; raise `TuningError` with the reason when that fails."""
    beside = path.with_name(path.name + ".new")
    try:
        beside.write_text(text, encoding="utf-8")
        os.replace(beside, path)
    except OSError as error:
        raise TuningError(f"{path}: cannot be written: {error.strerror}") from None
