"""From a single-node profile to the whole cluster. Called by planner, engine and report; pure.

The profile gives layer times and in-node collectives; schedule, pipeline depth, data parallelism and the network enter
by simulation. A projection says how uncertain it is and which of its parts were modelled.
"""

import math

from pydantic import Field

from tunewright.domain.config_batch import ConfigBatch
from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import TrainingConfig
from tunewright.domain.value import Value
from tunewright.errors import InvalidInput
from tunewright.performance.constants import Efficiency
from tunewright.performance.profiled import ProfiledTimes, profiled_layer_times
from tunewright.performance.step import StepEstimate, estimate
from tunewright.trial_protocol.report import Profile, TrialReport

REPRODUCIBILITY = 0.05
"""Relative spread of one configuration over four submitters of MLPerf Training v5.1 (Llama-3.1-8B, 8 MI355X)."""
MODEL_ERROR = 0.30
"""Relative error that a modelled part is trusted with."""

_COMPUTE = ("computeForward", "computeBackward", "recompute")


class Projection(Value):
    """Step time of one configuration on the cluster, extrapolated from its profile."""

    tokens_per_second_per_gpu: float = Field(ge=0)
    step_seconds: float = Field(ge=0)
    bubble_fraction: float = Field(ge=0, le=1)
    model_flops_utilisation: float = Field(ge=0)
    parts: dict[str, float] = Field(description="Seconds; their sum is stepSeconds.")
    uncertainty: float = Field(ge=0, description="Relative, one standard deviation.")
    flags: tuple[str, ...] = Field((), description="What was modelled, or timed only together with something else.")
    simulated: bool = Field(False, description="The profile came from a stand-in.")


def project(
    problem: TuningProblem, config: TrainingConfig, report: TrialReport, efficiency: Efficiency | None = None
) -> Projection:
    """Project `config` from a profile with its profile key; raise `InvalidInput` if the report has none."""
    if report.profile is None:
        outcome = report.failure or "a measurement"
        raise InvalidInput.of("report.profile", outcome, "only a report with a profile can be projected")
    batch = ConfigBatch.of([config])
    profiled = profiled_layer_times(problem, batch, report.profile, efficiency)
    step = estimate(problem, batch, profiled.times, report.profile.collectives, efficiency=efficiency)
    return Projection(
        tokens_per_second_per_gpu=float(step.tokens_per_second_per_gpu[0]),
        step_seconds=float(step.step_seconds[0]),
        bubble_fraction=min(1.0, float(step.bubble_fraction[0])),
        model_flops_utilisation=float(step.model_flops_utilisation[0]),
        parts={name: float(seconds[0]) for name, seconds in step.parts.items()},
        uncertainty=_uncertainty(step, profiled, report.profile),
        flags=_flags(step, profiled, report.profile),
        simulated=report.simulated,
    )


def _uncertainty(step: StepEstimate, profiled: ProfiledTimes, profile: Profile) -> float:
    """Reproducibility, the timings' spread on what was timed, and the model's error on the rest, in quadrature."""
    total = float(step.step_seconds[0])
    compute = sum(float(step.parts[name][0]) for name in _COMPUTE) / total
    timed = 0.0 if {"dense", "moe"} & set(profiled.modelled) else compute
    modelled = sum(_share(step, name) for name in _modelled_communication(step, profile)) + compute - timed
    return math.hypot(REPRODUCIBILITY, timed * profiled.spread, modelled * MODEL_ERROR)


def _flags(step: StepEstimate, profiled: ProfiledTimes, profile: Profile) -> tuple[str, ...]:
    parts = [f"modelled:{name}" for name in profiled.modelled]
    parts += [f"modelled:{name}" for name in _modelled_communication(step, profile)]
    parts += [f"untimed-group:{name}" for name in profile.modelled_groups]
    parts += [f"within-layers:{name}" for name in profile.included_groups if name not in profile.modelled_groups]
    return tuple(parts)


_TIMED_BY = {
    "tensorCommunication": ("all-gather", "reduce-scatter"),
    "expertCommunication": ("all-to-all",),
    "contextCommunication": ("send-receive",),
    "pipelineTransfer": ("send-receive",),
    "gradientReduction": (),
    "parameterGather": (),
}


def _modelled_communication(step: StepEstimate, profile: Profile) -> list[str]:
    """Name the communication parts that take time and have no timed collective of their kind."""
    timed = {collective.operation for collective in profile.collectives}
    return [
        name
        for name, operations in _TIMED_BY.items()
        if step.parts[name][0] > 0 and not (operations and timed.issuperset(operations))
    ]


def _share(step: StepEstimate, name: str) -> float:
    return float(step.parts[name][0] / step.step_seconds[0])
