"""Writing the report where the reader looks for it. Called by `entry`, once, at the very end."""

import os
import tempfile
from pathlib import Path

from tunewright.errors import ProtocolError
from tunewright.trial_protocol.codec import encode_report
from tunewright.trial_protocol.report import TrialReport


def write_report(path: Path, report: TrialReport) -> None:
    """Write `report` so that a reader sees all of it or nothing; raise OSError where it cannot be written.

    The kubelet mounts the termination log as a single file, which cannot be replaced: there it is overwritten.
    """
    text = _encode(report)
    try:
        _replace(path, text)
    except OSError:
        path.write_text(text, encoding="utf-8")


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
    """Return the report with half its message, else without details of a measurement; None where nothing is left."""
    if report.message:
        return report.model_copy(update={"message": report.message[: len(report.message) // 2]})
    for name in ("stage_peak_bytes", "losses"):
        if report.measured is not None and getattr(report.measured, name):
            return report.model_copy(update={"measured": report.measured.model_copy(update={name: ()})})
    return None


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
