"""Writing the report where the reader looks for it. Called by `entry`, once, at the very end."""

import os
import tempfile
from pathlib import Path
from typing import Any

from tunewright.errors import ProtocolError
from tunewright.trial_protocol.codec import encode_report
from tunewright.trial_protocol.report import TrialReport

_LEAST_MISSED_FIRST: tuple[tuple[str, str, Any], ...] = (
    ("measured", "stage_peak_bytes", ()),
    ("measured", "losses", ()),
    ("profile", "phase_peak_bytes", {}),
    ("profile", "spent_seconds", {}),
    ("device", "runtime", ""),
    ("device", "host", ""),
    ("device", "torch_version", ""),
    ("device", "architecture", ""),
    ("device", "name", ""),
)
"""No projection uses any of these: part of the report, field, and what stands there when it is left out."""
_KEPT_OF_MESSAGE = 100
"""Characters: enough for what went wrong, and short enough for any text when the details are gone."""


def write_report(path: Path, report: TrialReport) -> None:
    """Write `report` so that a reader sees all of it or nothing; raise OSError where it cannot be written.

    The kubelet mounts the termination log as a single file, which cannot be replaced: there it is overwritten.
    """
    text = _encode(report)
    try:
        _replace(path, text)
    except OSError:
        _overwrite(path, text)


def _encode(report: TrialReport) -> str:
    """Encode `report`, leaving out what is least missed until it fits the protocol's limit."""
    while True:
        try:
            return encode_report(report)
        except ProtocolError:
            shorter = _shorter(report)
            if shorter is None:
                raise
            report = shorter


def _shorter(report: TrialReport) -> TrialReport | None:
    """Return the report with half its message while that is long, else without its next detail; None at the end."""
    if len(report.message) > _KEPT_OF_MESSAGE:
        return report.model_copy(update={"message": report.message[: max(len(report.message) // 2, _KEPT_OF_MESSAGE)]})
    for part, name, nothing in _LEAST_MISSED_FIRST:
        holder = getattr(report, part)
        if holder is not None and getattr(holder, name):
            return report.model_copy(update={part: holder.model_copy(update={name: nothing})})
    return None


def _overwrite(path: Path, text: str) -> None:
    """Write into what is there. A pipe that nobody reads is an error, not a wait."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK, 0o666)
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        stream.write(text)


def _replace(path: Path, text: str) -> None:
    if path.exists() and not path.is_file():
        raise OSError(f"{path} is not a regular file")
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
        raise
