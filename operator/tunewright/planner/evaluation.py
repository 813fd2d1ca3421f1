"""What is known of every configuration that was tried: projected, measured, and how far the two are apart.

Called by every phase, by the summary and by the briefing. Bias is projected / measured − 1 over the configurations
that have both; it corrects later projections of the same run, and its spread gives their interval.
"""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from tunewright.domain.config_batch import FIELDS, ConfigBatch
from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import TrainingConfig
from tunewright.performance.projection import Projection, project
from tunewright.performance.step import estimate as estimate_step
from tunewright.planner.decisions import Judge, Origin
from tunewright.planner.settings import PlannerSettings
from tunewright.planner.state import RunState, Trial
from tunewright.search.space import Space
from tunewright.trial_protocol.report import Measured, TrialReport

LEAST_SPREAD = 0.01
"""Relative width of an interval at least: what two runs of one configuration differ by on the same nodes."""
_DETAIL_FIELDS = frozenset(
    {"overlap_grad_reduce", "overlap_param_gather", "sync_free_stage", "recompute_method", "recompute_num_layers"}
)
"""Fields whose change alone does not make another configuration, unless it shows in the projection."""


@dataclass(frozen=True)
class Interval:
    """A range of a figure."""

    low: float
    high: float


@dataclass(frozen=True)
class Measurement:
    """All successful repeats of one configuration."""

    trial: str
    tokens_per_second_per_gpu: float
    """Mean of the repeats' medians."""
    interval: Interval
    repeats: int
    nodes: int
    peak_memory_bytes: int
    simulated: bool


@dataclass(frozen=True)
class Bias:
    """projected / measured − 1, as a share."""

    mean: float
    samples: int
    interval: Interval | None
    """Lowest and highest; None with one sample."""


@dataclass(frozen=True)
class Candidate:
    """One configuration that was tried, at least by reusing a profile."""

    config: TrainingConfig
    row: int | None
    origin: Origin
    trial: str
    """The trial whose profile it is projected from; the first measurement where there is no profile."""
    estimated: float
    projection: Projection | None
    interval: Interval | None
    """Of the projection: from the bias-corrected figure's lower end to the uncorrected one's upper end."""
    corrected: float | None
    """The projection, corrected by the bias of this run."""
    reused: bool
    measurement: Measurement | None
    bias: float | None = None
    """projected / measured − 1 of this configuration, on the nodes of the measurement."""

    @property
    def projected(self) -> float | None:
        """Tokens/s/GPU by projection, uncorrected."""
        return self.projection.tokens_per_second_per_gpu if self.projection else None


@dataclass(frozen=True)
class Evaluation:
    """Every candidate in the order of its proposal."""

    candidates: tuple[Candidate, ...]
    bias: Bias | None
    baseline_config: TrainingConfig

    @cached_property
    def by_config(self) -> dict[TrainingConfig, Candidate]:
        """Candidates by configuration."""
        return {candidate.config: candidate for candidate in self.candidates}

    @property
    def baseline(self) -> Candidate | None:
        """The baseline, once it is known."""
        return self.by_config.get(self.baseline_config)

    @cached_property
    def by_projection(self) -> list[Candidate]:
        """Projected candidates, best first; equal ones in the order of their proposal."""
        projected = [candidate for candidate in self.candidates if candidate.projected is not None]
        return sorted(projected, key=lambda candidate: -(candidate.projected or 0.0))

    @property
    def best_projected(self) -> Candidate | None:
        """The incumbent."""
        return self.by_projection[0] if self.by_projection else None

    @cached_property
    def best_measured(self) -> Candidate | None:
        """The fastest that ran as a whole job."""
        measured = [candidate for candidate in self.candidates if candidate.measurement]
        return max(measured, key=_measured_value, default=None)

    @property
    def winner(self) -> Candidate | None:
        """What the run recommends: the best measured, or, before anything is measured, the best projected."""
        return self.best_measured or self.best_projected


def evaluate(problem: TuningProblem, settings: PlannerSettings, space: Space, state: RunState) -> Evaluation:
    """Project and compare everything that was tried so far."""
    sources = _sources(state)
    measurements = {config: _measurement(trials) for config, trials in _measured_trials(state).items()}
    projections = {
        config: cached_projection(problem, space, config, trial.report)
        for config, (trial, _, _) in sources.items()
        if trial.report is not None and trial.report.profile is not None
    }
    biases = _biases(problem, settings, space, sources, measurements)
    bias = _bias(biases)
    candidates = []
    for config, (trial, origin, reused) in sources.items():
        projection = projections.get(config)
        interval, corrected = corrected_by(projection, bias)
        row = space.row_of(config)
        candidates.append(
            Candidate(
                config=config,
                row=row,
                origin=origin,
                trial=trial.name,
                estimated=_estimated(problem, space, config, row),
                projection=projection,
                interval=interval,
                corrected=corrected,
                reused=reused,
                measurement=measurements.get(config),
                bias=biases.get(config),
            )
        )
    return Evaluation(tuple(candidates), bias, settings.baseline)


def known_bias(problem: TuningProblem, settings: PlannerSettings, space: Space, state: RunState) -> Bias | None:
    """Return how far projections were off so far; None before anything is measured."""
    measurements = {config: _measurement(trials) for config, trials in _measured_trials(state).items()}
    return _bias(_biases(problem, settings, space, _sources(state), measurements))


def cached_projection(problem: TuningProblem, space: Space, config: TrainingConfig, report: TrialReport) -> Projection:
    """Project a configuration once per report. The report is kept with its result, so that its identity stays."""
    key = ("projection", id(report), problem.cluster.nodes, config)
    if key not in space.memo:
        space.memo[key] = (report, project(problem, config, report))
    projection: Projection = space.memo[key][1]
    return projection


def on_fewer_nodes(problem: TuningProblem, nodes: int) -> TuningProblem:
    """Return the problem as it is measured on `nodes`: the batch shrinks with the cluster, so a rank does the same."""
    if nodes == problem.cluster.nodes:
        return problem
    batch = max(1, problem.global_batch_size * nodes // problem.cluster.nodes)
    cluster = problem.cluster.model_copy(update={"nodes": nodes})
    return problem.model_copy(update={"cluster": cluster, "global_batch_size": batch})


_Source = tuple[Trial, Origin, bool]


def _sources(state: RunState) -> dict[TrainingConfig, _Source]:
    """Return the trial that each configuration is known from, who proposed it, and whether it reuses a profile."""
    sources: dict[TrainingConfig, _Source] = {}
    for proposal in state.proposals:
        if isinstance(proposal, Judge):
            if proposal.verdict == "reused" and proposal.config is not None:
                trial = state.trials[proposal.reused_trial]
                sources.setdefault(proposal.config, (trial, proposal.origin, True))
        elif state.trials[proposal.trial].report is not None:
            trial = state.trials[proposal.trial]
            sources.setdefault(proposal.config, (trial, proposal.origin, False))
    return sources


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
    """Return the range of the middle half of the steps: what one run says about its own spread."""
    steps = sorted(measured.step_seconds)
    quarter = len(steps) // 4
    tokens = measured.tokens_per_step / measured.world_size
    return Interval(tokens / max(steps[len(steps) - 1 - quarter], 1e-12), tokens / max(steps[quarter], 1e-12))


def _biases(
    problem: TuningProblem,
    settings: PlannerSettings,
    space: Space,
    sources: dict[TrainingConfig, _Source],
    measurements: dict[TrainingConfig, Measurement],
) -> dict[TrainingConfig, float]:
    biases = {}
    for config, measurement in measurements.items():
        trial = sources[config][0] if config in sources else None
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


def _measured_value(candidate: Candidate) -> float:
    return candidate.measurement.tokens_per_second_per_gpu if candidate.measurement else 0.0
