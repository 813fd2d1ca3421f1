"""The figures that people look at first: best by projection, best by measurement, bias. Called by `summary`."""

from pydantic import Field

from tunewright.domain.config_batch import ConfigBatch
from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import TrainingConfig
from tunewright.domain.value import Value
from tunewright.legality import judge_runner
from tunewright.planner.candidates import Candidate, Evaluation
from tunewright.planner.settings import PlannerSettings
from tunewright.planner.state import RunState
from tunewright.search.space import Space
from tunewright.trial_protocol.loss_parity import LossParity, loss_parity
from tunewright.trial_protocol.report import Measured

REFERENCE_PRECISION_DIFFERS = "ReferencePrecisionDiffers"
FEWER_NODES = "FewerNodes"
RUNNER_LACKS_IT = "RunnerLacksIt"
"""Whoever computes the trials cannot run this configuration as a whole job: it stays a projection."""
LOSS_DIFFERS = "LossDiffers"
"""The winner does not train like the baseline: its speed is no gain."""
LOSS_NOT_COMPARED = "LossNotCompared"
"""The baseline was not measured, so nobody knows whether the winner trains like it."""


class Improvement(Value):
    """Gain in percent; absent where there is nothing of the same kind to compare with."""

    over_reference: float | None = None
    over_baseline: float | None = None


class BestProjected(Value):
    """Fastest by projection from a single-node profile."""

    trial: str = Field(description="Whose profile it rests on.")
    tokens_per_second_per_gpu: float
    interval_low: float
    interval_high: float
    improvement_percent: Improvement
    memory_percent: float | None = Field(None, description="Predicted allocation of the worst rank.")
    flags: tuple[str, ...] = ()
    configuration: TrainingConfig


class BestMeasured(Value):
    """Fastest of those that ran as a whole job."""

    trial: str
    tokens_per_second_per_gpu: float
    projected: float | None = Field(None, description="What was projected for the same configuration.")
    interval_low: float
    interval_high: float
    improvement_percent: Improvement
    memory_percent: float | None = Field(None, description="Measured peak of the highest rank.")
    nodes: int
    repeats: int
    loss_parity: LossParity | None = Field(
        None, description="Its loss curve against the measured baseline's; absent for the baseline itself."
    )
    flags: tuple[str, ...] = ()
    configuration: TrainingConfig


class BiasFigure(Value):
    """projected / measured − 1."""

    percent: float
    samples: int
    low_percent: float | None = None
    high_percent: float | None = None


def best_projected(
    settings: PlannerSettings, space: Space, evaluation: Evaluation, state: RunState
) -> BestProjected | None:
    """Return the best by projection, compared with the baseline's projection."""
    best, baseline = evaluation.best_projected, evaluation.baseline
    if best is None or best.projection is None or best.interval is None or best.projected is None:
        return None
    return BestProjected(
        trial=best.trial,
        tokens_per_second_per_gpu=best.projected,
        interval_low=best.interval.low,
        interval_high=best.interval.high,
        improvement_percent=_improvement(settings, best.projected, baseline.projected if baseline else None),
        memory_percent=space.memory_percent(best.row) if best.row is not None else None,
        flags=(
            *_reference_flags(settings, best.config),
            *_runner_flags(space, state, best.config),
            *best.projection.flags,
        ),
        configuration=best.config,
    )


def best_measured(
    problem: TuningProblem, settings: PlannerSettings, evaluation: Evaluation, state: RunState
) -> BestMeasured | None:
    """Return the best by measurement, compared with the measured baseline."""
    best, baseline = evaluation.best_measured, evaluation.baseline
    if best is None or best.measurement is None:
        return None
    found = best.measurement
    against = baseline.measurement.tokens_per_second_per_gpu if baseline and baseline.measurement else None
    parity = _loss_parity(evaluation, state)
    flags = (*_reference_flags(settings, best.config), *_loss_flags(evaluation, parity))
    if found.nodes < problem.cluster.nodes:
        flags = (*flags, FEWER_NODES)
    capacity = problem.cluster.accelerator.hbm_capacity_bytes
    return BestMeasured(
        trial=found.trial,
        tokens_per_second_per_gpu=found.tokens_per_second_per_gpu,
        projected=best.projected,
        interval_low=found.interval.low,
        interval_high=found.interval.high,
        improvement_percent=_improvement(settings, found.tokens_per_second_per_gpu, against),
        memory_percent=100 * found.peak_memory_bytes / capacity if found.peak_memory_bytes else None,
        nodes=found.nodes,
        repeats=found.repeats,
        loss_parity=parity,
        flags=flags,
        configuration=best.config,
    )


def _runner_flags(space: Space, state: RunState, config: TrainingConfig) -> tuple[str, ...]:
    if state.runner is None or judge_runner(space.problem, ConfigBatch.of([config]), state.runner).legal[0]:
        return ()
    return (RUNNER_LACKS_IT,)


def bias_figure(evaluation: Evaluation) -> BiasFigure | None:
    """Return the bias in percent, once something is measured."""
    bias = evaluation.bias
    if bias is None:
        return None
    return BiasFigure(
        percent=100 * bias.mean,
        samples=bias.samples,
        low_percent=100 * bias.interval.low if bias.interval else None,
        high_percent=100 * bias.interval.high if bias.interval else None,
    )


def _loss_parity(evaluation: Evaluation, state: RunState) -> LossParity | None:
    """Compare the fastest measurement with the baseline's; None for the baseline itself, or without one."""
    best, baseline = evaluation.best_measured, evaluation.baseline
    if best is baseline:
        return None
    mine, theirs = _first_measured(best, state), _first_measured(baseline, state)
    return loss_parity(mine, theirs) if mine is not None and theirs is not None else None


def _first_measured(candidate: Candidate | None, state: RunState) -> Measured | None:
    if candidate is None or candidate.measurement is None:
        return None
    report = state.trials[candidate.measurement.trial].report
    return report.measured if report is not None else None


def _loss_flags(evaluation: Evaluation, parity: LossParity | None) -> tuple[str, ...]:
    if parity is not None:
        return () if parity.agrees else (LOSS_DIFFERS,)
    return () if evaluation.best_measured is evaluation.baseline else (LOSS_NOT_COMPARED,)


def _improvement(settings: PlannerSettings, value: float, baseline: float | None) -> Improvement:
    reference = settings.reference.tokens_per_second_per_gpu if settings.reference else None
    return Improvement(
        over_reference=100 * (value / reference - 1) if reference else None,
        over_baseline=100 * (value / baseline - 1) if baseline else None,
    )


def _reference_flags(settings: PlannerSettings, config: TrainingConfig) -> tuple[str, ...]:
    named = settings.reference.precision if settings.reference else ""
    return (REFERENCE_PRECISION_DIFFERS,) if named and named != config.precision else ()
