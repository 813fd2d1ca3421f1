"""The Primus runner: profiles and measurements by `primus-cli … train pretrain`. Called by `entry`.

It runs where the request's backend is primus and a Primus checkout is at PRIMUS_HOME (in AMD's images
/workspace/Primus); elsewhere the program's own layers answer. A profile launches two depths on one node, a measurement
the whole job: on every node the same command with its NODE_RANK, and the last one prints the iterations.
"""

import math
import os
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tunewright.backends import primus, primus_launch
from tunewright.backends.launched_profile import profile_of, reduced
from tunewright.backends.training_log import Iteration, failure_of, iterations
from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import TrainingConfig
from tunewright.errors import InvalidInput
from tunewright.trial_protocol.report import MAX_SPREAD, Measured, Profile, Timing
from tunewright.trial_protocol.request import TrialRequest
from tunewright_trial.diagnostics import Diagnostics, folder_of, node_name
from tunewright_trial.failures import TrialFailure, unsupported
from tunewright_trial.job_environment import master_port_in, node_rank_in
from tunewright_trial.launched.process import run_to_end
from tunewright_trial.log import say

HOME_VARIABLE, DEFAULT_HOME = "PRIMUS_HOME", "/workspace/Primus"
DEFAULT_PORT = 1234
PROFILE_ITERATIONS = 8
SKIPPED_ITERATIONS = 3
"""The first iterations compile kernels and fill caches; Primus's own averages skip two."""


def runs_here(request: TrialRequest, environment: Mapping[str, str]) -> bool:
    """Whether this request is Primus's and Primus is there."""
    return request.problem.backend == "primus" and (_home(environment) / primus_launch.CLI).exists()


def outcome(request: TrialRequest, started: float, watch_stdin: bool) -> dict[str, Any]:
    """Run the trial and return what its report says; raise `TrialFailure` for whatever went wrong."""
    with tempfile.TemporaryDirectory(prefix="tunewright-") as folder:
        runner = _Runner(request, Path(folder), started + request.deadline_seconds, watch_stdin)
        try:
            if request.identity.kind == "measure":
                measured = runner.measure()
                return {"measured": measured} if measured else {}
            return {"profile": runner.profile()}
        except InvalidInput as error:
            raise unsupported(str(error)) from error


class _Runner:
    """The launches of one trial."""

    def __init__(self, request: TrialRequest, folder: Path, deadline: float, watch_stdin: bool) -> None:
        self._request, self._folder, self._deadline, self._watch_stdin = request, folder, deadline, watch_stdin
        self._kept = Diagnostics(folder_of(request, os.environ))

    def profile(self) -> Profile:
        """Time two depths on this node."""
        problem, config = self._request.problem, self._request.config
        runs: list[Timing] = []
        peak = 0
        for depth in self._request.depths:
            smaller, launched = reduced(problem, config, depth)
            timed = self._launch(smaller, launched, 1, 0, PROFILE_ITERATIONS)[SKIPPED_ITERATIONS:]
            runs.append(_timing([iteration.seconds for iteration in timed]))
            peak = max(peak, _peak(timed))
        return profile_of(problem, config, self._request.depths, runs, peak)

    def measure(self) -> Measured | None:
        """Run the whole job and read the steps after the warm-up; None on all nodes but the last, which prints them."""
        request, problem = self._request, self._request.problem
        rank = node_rank_in(os.environ, request.nodes) if request.nodes > 1 else 0
        count = request.warmup_steps + request.steps
        steps = self._launch(problem, request.config, request.nodes, rank, count)
        if rank < request.nodes - 1:
            return None
        timed = steps[request.warmup_steps :]
        losses = [iteration.loss for iteration in steps if iteration.loss is not None]
        if not losses or not all(math.isfinite(loss) for loss in losses):
            raise TrialFailure("NaNLoss", "the log has no finite loss")
        return Measured(
            step_seconds=tuple(iteration.seconds for iteration in timed[-64:]),
            tokens_per_step=problem.tokens_per_step,
            world_size=request.nodes * request.processes_per_node,
            nodes=request.nodes,
            peak_memory_bytes=_peak(steps),
            first_loss=losses[0],
            last_loss=losses[-1],
            losses=tuple(losses[:64]),
        )

    def _launch(
        self, problem: TuningProblem, config: TrainingConfig, nodes: int, node_rank: int, count: int
    ) -> Sequence[Iteration]:
        """Run `count` iterations and return them; raise `TrialFailure` with the class that the log tells."""
        experiment, log = self._folder / "experiment.yaml", self._folder / "log.txt"
        experiment.write_text(primus.render(problem, config), encoding="utf-8")
        options: dict[str, object] = {"train_iters": count, "seed": self._request.seed + 1}
        command = primus_launch.command(str(experiment), str(self._folder / "primus.log"), options)
        environment = self._environment(problem, config, nodes, node_rank)
        home = _home(os.environ)
        try:
            ended = run_to_end(command, home, environment, log, self._deadline, self._watch_stdin)
        finally:
            self._tell(log)
        failure = failure_of(ended.text, ended.exit_code)
        if failure is not None:
            raise TrialFailure(*failure)
        found = iterations(ended.text)
        if len(found) < count and node_rank == nodes - 1:
            raise TrialFailure("ResultMissing", f"the log has {len(found)} of {count} iterations")
        return found

    def _tell(self, log: Path) -> None:
        """Copy what the launcher printed, also where it was killed, to our log and to the diagnostics."""
        text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        say(text)
        self._kept.keep(f"{node_name(os.environ)}-launcher.log", text)

    def _environment(
        self, problem: TuningProblem, config: TrainingConfig, nodes: int, node_rank: int
    ) -> dict[str, str]:
        address = os.environ.get("MASTER_ADDR", "localhost") if nodes > 1 else "localhost"
        port = master_port_in(os.environ, DEFAULT_PORT)
        gpus = self._request.processes_per_node
        placed = primus_launch.node_environment(nodes, node_rank, gpus, address, port)
        return {**os.environ, **primus_launch.exports(problem, config), **placed}


def _home(environment: Mapping[str, str]) -> Path:
    return Path(environment.get(HOME_VARIABLE) or DEFAULT_HOME)


def _peak(found: Sequence[Iteration]) -> int:
    return max((iteration.memory_bytes or 0 for iteration in found), default=0)


def _timing(samples: Sequence[float]) -> Timing:
    """Return the median with half its interquartile range over it, as for the program's own timings."""
    median = statistics.median(samples)
    low, _, high = statistics.quantiles(samples, n=4, method="inclusive")
    return Timing(seconds=median, spread=min((high - low) / 2 / median, MAX_SPREAD) if median > 0 else 0.0)
