"""The figures that people look at first: best by projection, best by measurement, bias. Called by `summary`."""

from pydantic import Field

from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import TrainingConfig
from tunewright.domain.value import Value
from tunewright.planner.evaluation import Evaluation
from tunewright.planner.settings import PlannerSettings
from tunewright.search.space import Space

REFERENCE_PRECISION_DIFFERS = "ReferencePrecisionDiffers"
FEWER_NODES = "FewerNodes"


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
    flags: tuple[str, ...] = ()
    configuration: TrainingConfig


class BiasFigure(Value):
    """projected / measured − 1."""

    percent: float
    samples: int
    low_percent: float | None = None
    high_percent: float | None = None


def best_projected(settings: PlannerSettings, space: Space, evaluation: Evaluation) -> BestProjected | None:
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
        flags=(*_reference_flags(settings, best.config), *best.projection.flags),
        configuration=best.config,
    )


def best_measured(problem: TuningProblem, settings: PlannerSettings, evaluation: Evaluation) -> BestMeasured | None:
    """Return the best by measurement, compared with the measured baseline."""
    best, baseline = evaluation.best_measured, evaluation.baseline
    if best is None or best.measurement is None:
        return None
    found = best.measurement
    against = baseline.measurement.tokens_per_second_per_gpu if baseline and baseline.measurement else None
    flags = _reference_flags(settings, best.config)
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
        flags=flags,
        configuration=best.config,
    )


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


def _improvement(settings: PlannerSettings, value: float, baseline: float | None) -> Improvement:
    reference = settings.reference.tokens_per_second_per_gpu if settings.reference else None
    return Improvement(
        over_reference=100 * (value / reference - 1) if reference else None,
        over_baseline=100 * (value / baseline - 1) if baseline else None,
    )


def _reference_flags(settings: PlannerSettings, config: TrainingConfig) -> tuple[str, ...]:
    named = settings.reference.precision if settings.reference else ""
    return (REFERENCE_PRECISION_DIFFERS,) if named and named != config.precision else ()
