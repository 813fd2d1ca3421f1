"""A stand-in cluster whose truth is the cost model plus hidden effects. Used by `--trials simulated` and benchmarks.

Profiles show the hidden effects of what a single-node profile depends on (micro batch, tensor and expert split,
recomputation, dispatcher, precision); measurements show all of them, pipeline and schedule included, and a common
loss. Effects are drawn from the seed and the axis values alone, so every run of one seed meets the same truth, in any
order. Every report is labelled `simulated`.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tunewright import legality
from tunewright.domain.config_batch import ConfigBatch
from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import TrainingConfig
from tunewright.memory.estimate import estimate as estimate_memory
from tunewright.performance.compute import analytic_layer_times
from tunewright.performance.layer_times import LayerTimes
from tunewright.performance.step import estimate as estimate_step
from tunewright.ports import TrialObservation
from tunewright.trial_protocol.early_stop import is_losing
from tunewright.trial_protocol.report import DeviceFacts, LayerTiming, Measured, Profile, Timing, TrialReport
from tunewright.trial_protocol.request import TrialRequest

PROFILE_FIELDS: tuple[tuple[str, ...], ...] = (
    ("tensor_parallel_size",),
    ("expert_parallel_size",),
    ("micro_batch_size",),
    ("recompute_granularity",),
    ("moe_dispatcher",),
    ("micro_batch_size", "recompute_granularity"),
    ("tensor_parallel_size", "micro_batch_size"),
)
JOB_FIELDS: tuple[tuple[str, ...], ...] = (
    ("pipeline_parallel_size",),
    ("pipeline_schedule",),
    ("tensor_parallel_size", "pipeline_parallel_size"),
    ("virtual_pipeline_parallel_size", "micro_batch_size"),
)
PROFILE_GPU_SECONDS = 90.0
MEASURE_START_SECONDS = 120.0


@dataclass(frozen=True)
class HiddenTruth:
    """How the stand-in differs from the model. Spreads are standard deviations of log step time."""

    seed: int = 0
    effect: float = 0.06
    noise: float = 0.01
    job_loss: float = 0.08
    """Log of how much slower the whole job is than any projection: what makes projections optimistic."""

    def profile_factor(self, config: TrainingConfig) -> float:
        """Return true over modelled time of what a profile sees."""
        return math.exp(sum(self._effect(config, fields) for fields in PROFILE_FIELDS))

    def job_factor(self, config: TrainingConfig) -> float:
        """Return true over modelled time of the whole job."""
        hidden = sum(self._effect(config, fields) for fields in JOB_FIELDS)
        return self.profile_factor(config) * math.exp(hidden + self.job_loss)

    def noise_factor(self, *key: object) -> float:
        """Return the noise of one reading, the same for the same key."""
        return math.exp(self.noise * self._normal("noise", *key))

    def _effect(self, config: TrainingConfig, fields: tuple[str, ...]) -> float:
        return self.effect * self._normal(*((name, getattr(config, name)) for name in fields))

    def _normal(self, *key: object) -> float:
        digest = hashlib.sha256(repr((self.seed, key)).encode()).digest()
        return float(np.random.default_rng(int.from_bytes(digest[:8], "big")).standard_normal())


class SimulatedTrials:
    """Answers every trial at once. Implements `ports.Trials`."""

    def __init__(self, truth: HiddenTruth) -> None:
        self._truth = truth
        self._finished: dict[tuple[str, int], TrialObservation] = {}

    async def start(self, request: TrialRequest) -> None:
        """Answer one attempt; the same request gives the same answer."""
        identity = request.identity
        report = self._report(request)
        gpus = request.nodes * request.processes_per_node
        self._finished[identity.trial, identity.attempt] = TrialObservation(
            trial=identity.trial,
            attempt=identity.attempt,
            state="finished",
            report=report,
            failure=report.failure,
            message=report.message,
            node="simulated",
            gpu_seconds=report.wall_seconds * gpus,
        )

    async def adopt(self, request: TrialRequest) -> None:
        """Answer again: the answer is the same."""
        await self.start(request)

    async def observe(self) -> Sequence[TrialObservation]:
        """Return every attempt that was answered."""
        return list(self._finished.values())

    async def stop(self, trial: str, attempt: int) -> None:
        """Forget one attempt."""
        self._finished.pop((trial, attempt), None)

    async def close(self) -> None:
        """Nothing runs, so nothing is to be ended."""

    def _report(self, request: TrialRequest) -> TrialReport:
        batch = ConfigBatch.of([request.config])
        outcome: dict[str, object] = {"failure": "Unsupported", "message": "the launcher refuses this configuration"}
        if legality.judge(request.problem, batch).legal[0]:
            answer = self._profile if request.identity.kind == "profile" else self._measure
            outcome = answer(request, batch)
        return TrialReport.parse(
            {
                "identity": request.identity,
                "device": DeviceFacts(name=f"simulated {request.device.preset}", count=request.processes_per_node),
                "simulated": True,
                **outcome,
            }
        )

    def _profile(self, request: TrialRequest, batch: ConfigBatch) -> dict[str, object]:
        factor = self._truth.profile_factor(request.config) * self._truth.noise_factor(
            request.identity.trial, "profile"
        )
        peak = int(estimate_memory(request.problem, batch).allocated_bytes[0])
        if peak > request.problem.cluster.accelerator.hbm_capacity_bytes:
            message = f"needs {peak} bytes"
            return {"failure": "DeviceOutOfMemory", "message": message, "wall_seconds": PROFILE_GPU_SECONDS / 3}
        times = analytic_layer_times(request.problem, batch)
        return {
            "profile": _profile_of(request.problem, times, factor, self._truth.noise, peak),
            "wall_seconds": PROFILE_GPU_SECONDS,
        }

    def _measure(self, request: TrialRequest, batch: ConfigBatch) -> dict[str, object]:
        step = float(estimate_step(request.problem, batch).step_seconds[0]) * self._truth.job_factor(request.config)
        seconds: list[float] = []
        while len(seconds) < request.steps and not is_losing(seconds, request.cutoff_step_seconds):
            noise = self._truth.noise_factor(request.identity.trial, request.identity.attempt, len(seconds))
            seconds.append(step * noise)
        measured = Measured(
            step_seconds=tuple(seconds),
            stopped_early=len(seconds) if len(seconds) < request.steps else None,
            tokens_per_step=request.problem.tokens_per_step,
            world_size=request.problem.world_size,
            nodes=request.nodes,
            peak_memory_bytes=int(estimate_memory(request.problem, batch).allocated_bytes[0]),
            first_loss=math.log(request.problem.model.vocabulary_size),
            last_loss=math.log(request.problem.model.vocabulary_size),
        )
        wall = MEASURE_START_SECONDS + step * (len(seconds) + request.warmup_steps)
        return {"measured": measured, "wall_seconds": wall}


def _profile_of(problem: TuningProblem, times: LayerTimes, factor: float, spread: float, peak_bytes: int) -> Profile:
    return Profile(
        dense_layer=_layer(times, "dense", factor, spread) if problem.model.num_dense_layers else None,
        moe_layer=_layer(times, "moe", factor, spread) if problem.model.num_moe_layers else None,
        embedding=_layer(times, "embedding", factor, spread),
        head=_layer(times, "head", factor, spread),
        optimizer_seconds_per_parameter=float(times.optimizer_seconds_per_parameter[0]) * factor,
        peak_memory_bytes=peak_bytes,
    )


def _layer(times: LayerTimes, kind: str, factor: float, spread: float) -> LayerTiming:
    parts = ("forward", "backward_input", "backward_weight")
    return LayerTiming(
        **{part: Timing(seconds=float(getattr(times, f"{kind}_{part}")[0]) * factor, spread=spread) for part in parts}
    )
