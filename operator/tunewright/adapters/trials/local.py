"""Trials as processes of this machine. Used by the CLI and by tests; implements `ports.Trials`.

Each attempt has a folder of its own: `request.json`, `report.json`, `log.txt` and `diagnostics`. Several nodes of a
request become more processes of this one machine. The program is told to end when its standard input closes, which
happens even when this process is killed.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tunewright.errors import ProtocolError, TuningError
from tunewright.ports import TrialObservation
from tunewright.trial_protocol.codec import decode_report, decode_request, encode_request
from tunewright.trial_protocol.report import FailureClass, TrialReport
from tunewright.trial_protocol.request import TrialRequest

PROGRAM = ("-m", "tunewright_trial")
GRACE_SECONDS = 30.0
"""How much longer than its own deadline a program may take before it is killed from outside."""
ENDED_WITH_PARENT = ("Cancelled", "Preempted")
"""What a trial reports when the process that started it dies: it says nothing about the configuration."""
INTERRUPTED = "it ended with the process that had started it"
_LOG_TAIL = 200


@dataclass
class _Attempt:
    """One started attempt. `process` is None once it has finished, or when an earlier process left its report."""

    request: TrialRequest
    folder: Path
    process: subprocess.Popen[bytes] | None
    started: float
    observation: TrialObservation


class LocalTrials:
    """Runs every attempt at once that it is told to start: how many that are is the planner's business."""

    def __init__(self, workdir: Path, python: str = sys.executable, program: Sequence[str] = PROGRAM) -> None:
        self._workdir = workdir
        self._command = (python, *program)
        self._attempts: dict[tuple[str, int], _Attempt] = {}

    async def start(self, request: TrialRequest) -> None:
        """Start one attempt, unless it is known or an earlier process started it."""
        key = (request.identity.trial, request.identity.attempt)
        if key in self._attempts:
            return
        try:
            self._attempts[key] = self._started(request)
        except OSError as error:
            raise TuningError(f"trial {key[0]} cannot start in {self._workdir}: {error}") from error

    async def adopt(self, request: TrialRequest) -> None:
        """Take the report that an attempt of an earlier process left; without one it was interrupted with it."""
        attempt = self._attempt(request)
        _take_over(attempt)
        self._attempts[request.identity.trial, request.identity.attempt] = attempt

    async def observe(self) -> Sequence[TrialObservation]:
        """Return every attempt that was started here."""
        for attempt in self._attempts.values():
            _update(attempt)
        return [attempt.observation for attempt in self._attempts.values()]

    async def stop(self, trial: str, attempt: int) -> None:
        """Kill one attempt with all its ranks. One that has finished keeps its outcome."""
        found = self._attempts.get((trial, attempt))
        if found is None:
            return
        _update(found)
        if found.process is not None:
            await asyncio.to_thread(_kill, found.process)
            _conclude(found, failure="Cancelled", message="stopped")
            with contextlib.suppress(OSError):
                (found.folder / "log.txt").touch()  # tells a later process how long it ran

    async def close(self) -> None:
        """Kill whatever still runs."""
        for trial, attempt in list(self._attempts):
            await self.stop(trial, attempt)

    def _attempt(self, request: TrialRequest) -> _Attempt:
        identity = request.identity
        folder = self._workdir / f"{identity.trial}-{identity.attempt}"
        running = TrialObservation(identity.trial, identity.attempt, "running", node="local")
        return _Attempt(request, folder, None, time.monotonic(), running)

    def _started(self, request: TrialRequest) -> _Attempt:
        attempt = self._attempt(request)
        folder = attempt.folder
        if _was_started(attempt):
            _take_over(attempt)
            return attempt
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "report.json").unlink(missing_ok=True)
        (folder / "request.json").write_text(encode_request(on_one_node(request)), encoding="utf-8")
        attempt.process = _spawn(self._command, folder, environment_of(request, os.environ))
        return attempt


def on_one_node(request: TrialRequest) -> TrialRequest:
    """Return the request with the processes of all its nodes on one."""
    processes = request.nodes * request.processes_per_node
    return request.model_copy(update={"nodes": 1, "processes_per_node": processes})


def environment_of(request: TrialRequest, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the program's environment: ours without the program's own variables; no accelerators for a CPU trial."""
    own = {name: value for name, value in environment.items() if not name.startswith("TUNEWRIGHT_")}
    if request.device.vendor == "cpu":
        own |= {name: "" for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")}
    return own


def _spawn(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    files = ("--request", "request.json", "--report", "report.json", "--diagnostics", "diagnostics")
    arguments = (*files, "--stop-with-stdin")
    with (folder / "log.txt").open("wb") as log:
        return subprocess.Popen(
            [*command, *arguments],
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _update(attempt: _Attempt) -> None:
    process = attempt.process
    if process is None:
        return
    late = time.monotonic() - attempt.started > attempt.request.deadline_seconds + GRACE_SECONDS
    if not _has_ended(process):
        if late:
            _kill(process)
            _conclude(attempt, failure="Timeout", message="the trial program did not end by itself and was killed")
        return
    _kill(process)  # it has ended; a rank that it left behind has not
    try:
        _conclude(attempt, report=_report_of(attempt))
    except (OSError, UnicodeDecodeError) as error:
        failure: FailureClass = "HostOOMKilled" if process.returncode == -signal.SIGKILL else "ResultMissing"
        _conclude(
            attempt, failure=failure, message=f"no report, exit code {process.returncode}: {_said(attempt, error)}"
        )
    except ProtocolError as error:
        _conclude(attempt, failure="ResultInvalid", message=str(error)[:500])


def _conclude(
    attempt: _Attempt, report: TrialReport | None = None, failure: FailureClass | None = None, message: str = ""
) -> None:
    attempt.process = None
    wall_seconds = report.wall_seconds if report else time.monotonic() - attempt.started
    request = attempt.request
    attempt.observation = replace(
        attempt.observation,
        state="finished",
        report=report,
        failure=report.failure if report else failure,
        message=report.message if report else message,
        gpu_seconds=wall_seconds * request.nodes * request.processes_per_node,
    )


def _take_over(attempt: _Attempt) -> None:
    """Conclude an attempt of an earlier process from what it left in its folder."""
    report = _left_report(attempt)
    if report is not None and report.failure not in ENDED_WITH_PARENT:
        _conclude(attempt, report=report)
        return
    attempt.started -= report.wall_seconds if report is not None else _seen_alive_seconds(attempt.folder)
    _conclude(attempt, failure="Interrupted", message=INTERRUPTED)


def _was_started(attempt: _Attempt) -> bool:
    """Tell whether an earlier process had started exactly this attempt: nothing is started twice."""
    try:
        text = (attempt.folder / "request.json").read_text(encoding="utf-8")
        return decode_request(text).identity == attempt.request.identity
    except (OSError, UnicodeDecodeError, ProtocolError):
        return False


def _seen_alive_seconds(folder: Path) -> float:
    """Return the time from the request to the last word of the program, which is the least that it ran."""
    try:
        return max(0.0, (folder / "log.txt").stat().st_mtime - (folder / "request.json").stat().st_mtime)
    except OSError:
        return 0.0


def _report_of(attempt: _Attempt) -> TrialReport:
    text = (attempt.folder / "report.json").read_text(encoding="utf-8")
    return decode_report(text, attempt.request.identity)


def _left_report(attempt: _Attempt) -> TrialReport | None:
    try:
        return _report_of(attempt)
    except (OSError, UnicodeDecodeError, ProtocolError):
        return None


def _said(attempt: _Attempt, error: Exception) -> str:
    """Return the last line of the log, or why there is none."""
    try:
        lines = (attempt.folder / "log.txt").read_text(encoding="utf-8", errors="replace").strip().splitlines()
    except OSError:
        return str(error)
    return lines[-1][-_LOG_TAIL:] if lines else str(error)


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Return whether the program ended, without collecting it: until `_kill` has, its number is nobody else's."""
    if process.returncode is not None or not hasattr(os, "waitid"):
        return process.poll() is not None
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the program and everything in its session, and collect it."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass  # nothing of it is left
    process.wait()
    if process.stdin is not None:
        process.stdin.close()
