"""One run of a launcher: its output into a file, its end within the deadline, nothing left behind."""

import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tunewright_trial.failures import TrialFailure
from tunewright_trial.log import STANDARD_INPUT

_PAUSE_SECONDS = 0.2


@dataclass(frozen=True)
class Ended:
    """How a run ended. `text` is everything that it printed."""

    exit_code: int
    text: str


def run_to_end(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], log: Path, deadline: float, watch_stdin: bool
) -> Ended:
    """Run `command` in `folder` and return its end; raise `TrialFailure` for a timeout or a stop.

    `deadline` is monotonic. The whole session of the command is killed when this function is left.
    """
    with log.open("wb") as stream:
        process = subprocess.Popen(
            list(command),
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        while process.poll() is None:
            _pause(watch_stdin)
            if time.monotonic() > deadline:
                raise TrialFailure("Timeout", f"no result within the deadline; last line: {last_line(log)}")
    finally:
        _kill(process)
    return Ended(process.returncode, log.read_text(encoding="utf-8", errors="replace"))


def last_line(log: Path) -> str:
    """Return the last line that says something."""
    lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return " ".join(lines[-1].split())[:200] if lines else "no output"


def _pause(watch_stdin: bool) -> None:
    if not watch_stdin:
        time.sleep(_PAUSE_SECONDS)
        return
    ready, _, _ = select.select([STANDARD_INPUT], [], [], _PAUSE_SECONDS)
    if ready and not os.read(STANDARD_INPUT, 4096):
        raise TrialFailure("Cancelled", "the process that started this trial closed its end")


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the session: the launcher starts a process for each device."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass  # nothing of it is left
    process.wait()
