"""Starts the ranks of one node, waits for them, and says what came of it. Imports no torch; called by `entry`.

A hang, a crash or the death of a rank therefore never costs the report. The ranks are forked from a fork server that
has imported torch once. When this process is killed, the end of a pipe tells them.
"""

import multiprocessing
import os
import signal
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from tunewright.trial_protocol.codec import encode_request
from tunewright.trial_protocol.report import FailureClass
from tunewright.trial_protocol.request import TrialRequest
from tunewright_trial.diagnostics import folder_of
from tunewright_trial.failures import TrialFailure, listed
from tunewright_trial.job_environment import node_rank_in
from tunewright_trial.launch import start_rank
from tunewright_trial.log import STANDARD_INPUT
from tunewright_trial.place import Place
from tunewright_trial.progress import progress_of

GRACE_SECONDS = 3.0
"""After the first failure, how long the other ranks may still say what happened to them."""

MOST_NAMED = 8
"""Silent ranks that a message names: it has 500 characters."""


@dataclass
class Finding:
    """What one rank said, or what its end without a word says: that is told by the exit code."""

    device: str = ""
    result: str = ""
    failure: FailureClass | None = None
    message: str = ""


@dataclass
class Node:
    """The ranks of this node that are still running, by the pipe they talk through."""

    processes: list[ForkServerProcess] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    pipes: dict[Connection, int] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    lifeline: Connection | None = None


def supervise(request: TrialRequest, started: float, stop_with_stdin: bool) -> list[Finding]:
    """Run all ranks of this node to their end and return what each said.

    Raises `TrialFailure` for a timeout, and for the end of standard input if that is watched. `started` is the
    monotonic time from which the deadline counts.
    """
    node = Node()
    deadline = started + request.deadline_seconds
    with tempfile.TemporaryDirectory(prefix="tunewright-") as folder:
        try:
            _start(node, request, folder)
            _listen(node, deadline, request, stop_with_stdin)
        finally:
            _kill(node.processes)
            _close(node)
    return node.findings


def _start(node: Node, request: TrialRequest, folder: str) -> None:
    context = multiprocessing.get_context("forkserver")
    if request.device.vendor == "cpu":
        os.environ.setdefault("OMP_NUM_THREADS", "1")  # before the fork server's torch reads it
    context.set_forkserver_preload(preloads(request))
    text = encode_request(request)
    heard, node.lifeline = context.Pipe(duplex=False)
    for place in places(request, os.environ, str(Path(folder) / "meeting")):
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=start_rank, args=(text, place, theirs, heard), daemon=True)
        process.start()
        theirs.close()
        node.pipes[ours] = len(node.processes)
        node.processes.append(process)
        node.places.append(place)
        node.findings.append(Finding())
    heard.close()


def preloads(request: TrialRequest) -> list[str]:
    """Return the slow imports of this trial, which the fork server does once instead of every rank."""
    config = request.config
    modules = ["tunewright_trial.rank"]
    if config.recompute_granularity != "none":
        modules.append("torch._dynamo")  # torch.utils.checkpoint imports it at its first call
    if config.pipeline_parallel_size > 1 and request.identity.kind == "measure":
        modules.append("tunewright_trial.parallel.schedules")
    if config.optimizer == "fsdp2" and request.identity.kind == "measure":
        modules.append("tunewright_trial.parallel.fully_sharded")
    return modules


def places(request: TrialRequest, environment: Mapping[str, str], meeting_file: str) -> list[Place]:
    """Return the places of this node's ranks. NODE_RANK, or the index of an indexed Job, tells the node."""
    return [
        Place(
            local_rank=local_rank,
            processes_per_node=request.processes_per_node,
            node_rank=node_rank_in(environment, request.nodes) if request.nodes > 1 else 0,
            nodes=request.nodes,
            meeting_file=meeting_file,
            timeout_seconds=request.deadline_seconds,
            diagnostics_folder=folder_of(request, environment),
        )
        for local_rank in range(request.processes_per_node)
    ]


def _listen(node: Node, deadline: float, request: TrialRequest, stop_with_stdin: bool) -> None:
    while node.pipes:
        limit = deadline - time.monotonic()
        ready = wait([*node.pipes, *([STANDARD_INPUT] if stop_with_stdin else [])], max(limit, 0))
        if not ready:
            if any(finding.failure for finding in node.findings):
                return  # the others had their grace
            raise TrialFailure("Timeout", f"no result within {request.deadline_seconds:g} s; {_silent(node)}")
        for source in ready:
            if not isinstance(source, Connection):
                _check_parent()
            elif _hear(node, source):
                deadline = min(deadline, time.monotonic() + GRACE_SECONDS)


def _silent(node: Node) -> str:
    """Name the ranks that have not answered and what each is doing, who is furthest behind first.

    Where one rank hangs the others wait for it in a collective, so all of them are silent.
    """
    waiting = [(*progress_of(node.places[index]), node.places[index].rank) for index in node.pipes.values()]
    told = [f"rank {rank} in {phase}" for _, phase, rank in sorted(waiting, key=lambda one: (one[0], one[2]))]
    return f"silent: {listed(told, MOST_NAMED)}"


def _check_parent() -> None:
    if not os.read(STANDARD_INPUT, 4096):
        raise TrialFailure("Cancelled", "the process that started this trial closed its end")


def _hear(node: Node, pipe: Connection) -> bool:
    """Take one message of a rank; return whether it failed."""
    finding = node.findings[node.pipes[pipe]]
    try:
        kind, *content = pipe.recv()
    except (EOFError, OSError):
        _conclude(node, pipe, finding)
        return finding.failure is not None
    if kind == "device":
        finding.device = content[0]
    elif kind == "result":
        finding.result = content[0]
    else:
        finding.failure, finding.message = content
    return finding.failure is not None


def _conclude(node: Node, pipe: Connection, finding: Finding) -> None:
    """A rank closed its pipe: it ended. Without a word before, its exit code tells why."""
    process = node.processes[node.pipes.pop(pipe)]
    if finding.result or finding.failure:
        return
    process.join(GRACE_SECONDS)
    finding.failure, finding.message = _death(process.exitcode)


def _death(exit_code: int | None) -> tuple[FailureClass, str]:
    if exit_code == -signal.SIGKILL:
        return "HostOOMKilled", "a rank was killed (SIGKILL): most likely the host or the container ran out of memory"
    if exit_code == -signal.SIGBUS:
        return "RcclFailure", "a rank ended by SIGBUS: most likely too little shared memory, give /dev/shm more"
    how = f"signal {-exit_code}" if exit_code is not None and exit_code < 0 else f"exit code {exit_code}"
    return "CrashInTraining", f"a rank ended by {how} without a word"


def _kill(processes: Sequence[ForkServerProcess]) -> None:
    for process in processes:
        process.kill()
    for process in processes:
        process.join(GRACE_SECONDS)


def _close(node: Node) -> None:
    for pipe in (*node.pipes, node.lifeline):
        if pipe is not None:
            pipe.close()


def worst(findings: Sequence[Finding]) -> tuple[int, Finding] | None:
    """Return the rank and finding that explains a failure best: a collective fails because something else did."""
    failed = [(rank, finding) for rank, finding in enumerate(findings) if finding.failure]
    causes = [entry for entry in failed if entry[1].failure != "RcclFailure"]
    return next(iter(causes or failed), None)
