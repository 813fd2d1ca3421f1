"""What is known of every configuration that was tried: projected, measured, and how far the two are apart.

Called by every phase, by the summary and by the briefing. Bias is projected / measured − 1 over the configurations
that have both; it corrects later projections of the same run, and its spread gives their interval.
"""

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from tunewright.domain.config_batch import FIELDS, ConfigBatch
from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import TrainingConfig
from tunewright.performance.projection import Projection, project
from tunewright.performance.step import estimate as estimate_step
from tunewright.planner.candidates import Bias, Candidate, Evaluation, Interval, Measurement
from tunewright.planner.settings import PlannerSettings
from tunewright.planner.state import RunState
from tunewright.planner.tally import Source
from tunewright.planner.trial import Trial
from tunewright.search.space import Space
from tunewright.trial_protocol.report import Measured, TrialReport

T = TypeVar("T")

LEAST_SPREAD = 0.01
"""Relative width of an interval at least: what two runs of one configuration differ by on the same nodes."""
_DETAIL_FIELDS = frozenset(
    {"overlap_grad_reduce", "overlap_param_gather", "sync_free_stage", "recompute_method", "recompute_num_layers"}
)
"""Fields whose change alone does not make another configuration, unless it shows in the projection."""


@dataclass(frozen=True)
class _Kept:
    """The evaluation of a state at one moment."""

    state: RunState
    asked: tuple[object, ...]
    revision: int
    known: int
    evaluation: Evaluation


def evaluate(problem: TuningProblem, settings: PlannerSettings, space: Space, state: RunState) -> Evaluation:
    """Project and compare everything that was tried so far; of a state that has grown, what is new in it."""
    tally, asked = state.tally, (problem, settings.baseline, settings.validation.nodes)
    kept: _Kept | None = space.memo.get("evaluation")
    if kept is not None and kept.state is state and kept.asked == asked and kept.revision == tally.revision:
        added = [_projected(problem, space, source, kept.evaluation.bias) for source in tally.evidence[kept.known :]]
        evaluation = kept.evaluation.with_projected(added) if added else kept.evaluation
    else:
        evaluation = _evaluated(problem, settings, space, state)
    space.memo["evaluation"] = _Kept(state, asked, tally.revision, len(tally.evidence), evaluation)
    return evaluation


def _evaluated(problem: TuningProblem, settings: PlannerSettings, space: Space, state: RunState) -> Evaluation:
    measurements = {config: _measurement(trials) for config, trials in _measured_trials(state).items()}
    biases = _biases(problem, settings, space, state.tally.sources, measurements)
    bias = _bias(biases)
    candidates = []
    for source in sorted(state.tally.sources.values(), key=lambda source: source.place):
        alone, config = _projected(problem, space, source, bias), source.config
        candidates.append(replace(alone, measurement=measurements.get(config), bias=biases.get(config)))
    return Evaluation(tuple(candidates), bias, settings.baseline)


def _projected(problem: TuningProblem, space: Space, source: Source, bias: Bias | None) -> Candidate:
    """Return what is known of a configuration before it is measured."""
    config, report = source.config, source.trial.report
    has_profile = report is not None and report.profile is not None
    projection = cached_projection(problem, space, config, report) if report and has_profile else None
    interval, corrected = corrected_by(projection, bias)
    row = space.row_of(config)
    return Candidate(
        config=config,
        row=row,
        origin=source.origin,
        trial=source.trial.name,
        estimated=_estimated(problem, space, config, row),
        projection=projection,
        interval=interval,
        corrected=corrected,
        reused=source.reused,
        measurement=None,
        place=source.place,
    )


def known_bias(problem: TuningProblem, settings: PlannerSettings, space: Space, state: RunState) -> Bias | None:
    """Return how far projections were off so far; None before anything is measured."""
    measurements = {config: _measurement(trials) for config, trials in _measured_trials(state).items()}
    return _bias(_biases(problem, settings, space, state.tally.sources, measurements))


def cached_projection(problem: TuningProblem, space: Space, config: TrainingConfig, report: TrialReport) -> Projection:
    """Project a configuration once per report."""
    what = ("projection", problem.cluster.nodes, config)
    return once_per_report(space, report, what, lambda: project(problem, config, report))


def once_per_report(space: Space, report: TrialReport, what: tuple[object, ...], compute: Callable[[], T]) -> T:
    """Return what follows from a report, computed once; who reads a ledger again has the same reports."""
    key = (*what, report.identity)
    kept: tuple[TrialReport, T] | None = space.memo.get(key)
    if kept is None or not (kept[0] is report or kept[0] == report):
        kept = space.memo[key] = report, compute()
    return kept[1]


def on_fewer_nodes(problem: TuningProblem, nodes: int) -> TuningProblem:
    """Return the problem as it is measured on `nodes`: the batch shrinks with the cluster, so a rank does the same."""
    if nodes == problem.cluster.nodes:
        return problem
    batch = max(1, problem.global_batch_size * nodes // problem.cluster.nodes)
    cluster = problem.cluster.model_copy(update={"nodes": nodes})
    return problem.model_copy(update={"cluster": cluster, "global_batch_size": batch})


def _measured_trials(state: RunState) -> dict[TrainingConfig, list[Trial]]:
    found: dict[TrainingConfig, list[Trial]] = {}
    for trial in state.measurements:
        if trial.report is not None:
            found.setdefault(trial.config, []).append(trial)
    return found


def _measurement(trials: list[Trial]) -> Measurement:
    reports = [trial.report for trial in trials if trial.report is not None]
    measured = [report.measured for report in reports if report.measured is not None]
    figures = [item.tokens_per_second_per_gpu for item in measured]
    return Measurement(
        trial=trials[0].name,
        tokens_per_second_per_gpu=statistics.fmean(figures),
        interval=Interval(min(figures), max(figures)) if len(figures) > 1 else _step_interval(measured[0]),
        repeats=len(figures),
        nodes=measured[0].nodes,
        peak_memory_bytes=max(item.peak_memory_bytes for item in measured),
        simulated=any(report.simulated for report in reports),
    )


def _step_interval(measured: Measured) -> Interval:
    """Return the range of the middle half of the steps: what one run says about its own spread.

    Of a run that stopped early, the range of all its few steps, and at least what two runs differ by on either side.
    """
    steps = sorted(measured.step_seconds)
    quarter, spread = (len(steps) // 4, 0.0) if measured.stopped_early is None else (0, LEAST_SPREAD)
    tokens = measured.tokens_per_step / measured.world_size
    slowest, fastest = steps[len(steps) - 1 - quarter], steps[quarter]
    return Interval(tokens / max(slowest, 1e-12) * (1 - spread), tokens / max(fastest, 1e-12) * (1 + spread))


def _biases(
    problem: TuningProblem,
    settings: PlannerSettings,
    space: Space,
    sources: Mapping[TrainingConfig, Source],
    measurements: dict[TrainingConfig, Measurement],
) -> dict[TrainingConfig, float]:
    biases = {}
    for config, measurement in measurements.items():
        trial = sources[config].trial if config in sources else None
        if trial is None or trial.report is None or trial.report.profile is None:
            continue
        measured_problem = on_fewer_nodes(problem, settings.validation.nodes)
        projection = cached_projection(measured_problem, space, config, trial.report)
        biases[config] = projection.tokens_per_second_per_gpu / measurement.tokens_per_second_per_gpu - 1
    return biases


def _bias(biases: Mapping[TrainingConfig, float]) -> Bias | None:
    ratios = list(biases.values())
    if not ratios:
        return None
    interval = Interval(min(ratios), max(ratios)) if len(ratios) > 1 else None
    return Bias(mean=statistics.fmean(ratios), samples=len(ratios), interval=interval)


def corrected_by(projection: Projection | None, bias: Bias | None) -> tuple[Interval | None, float | None]:
    """Return the interval of a projection, and its figure corrected by the bias of the run."""
    if projection is None:
        return None, None
    projected = projection.tokens_per_second_per_gpu
    corrected = projected / (1 + bias.mean) if bias else projected
    spread = spread_of(bias) if bias and bias.interval else projection.uncertainty
    low, high = min(projected, corrected) * (1 - spread), max(projected, corrected) * (1 + spread)
    return Interval(max(0.0, low), high), corrected


def spread_of(bias: Bias | None) -> float:
    """Return how far corrected projections of the run may be off, as a share: half the range of its bias."""
    found = bias.interval if bias else None
    return max(LEAST_SPREAD, (found.high - found.low) / 2) if found else LEAST_SPREAD


def are_alike(one: tuple[TrainingConfig, float], other: tuple[TrainingConfig, float]) -> bool:
    """Tell whether two differ in details alone, and their speeds by less than those of two runs of one do."""
    details = all(getattr(one[0], name) == getattr(other[0], name) for name in FIELDS if name not in _DETAIL_FIELDS)
    return details and abs(one[1] / other[1] - 1) < LEAST_SPREAD


def _estimated(problem: TuningProblem, space: Space, config: TrainingConfig, row: int | None) -> float:
    if row is not None:
        return float(space.tokens_per_second_per_gpu[row])
    return float(estimate_step(problem, ConfigBatch.of([config])).tokens_per_second_per_gpu[0])
