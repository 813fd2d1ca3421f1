"""The projections that a round records: those of what was profiled since the round before, and of what it reuses.

Called by the engine when it writes a round, and by the strict replay, which derives them again. Pure.
"""

from collections.abc import Sequence

from tunewright.domain.training_config import TrainingConfig
from tunewright.planner.candidates import Bias
from tunewright.planner.decisions import Decision, Judge
from tunewright.planner.evaluation import cached_projection, corrected_by, known_bias
from tunewright.planner.records import ProjectedFigure, Round
from tunewright.planner.snapshot import Snapshot
from tunewright.planner.trial import Trial
from tunewright.trial_protocol.identity import config_digest
from tunewright.units import six_digits


def decided_round(snapshot: Snapshot, decisions: tuple[Decision, ...], at: str) -> Round:
    """Return the record of decisions made in a snapshot."""
    projections = new_projections(snapshot, decisions)
    return Round(elapsed_seconds=snapshot.elapsed_seconds, decisions=decisions, projections=projections, at=at)


def new_projections(snapshot: Snapshot, decisions: Sequence[Decision]) -> tuple[ProjectedFigure, ...]:
    """Return the projections that are used for the first time by these decisions, made in this snapshot."""
    state = snapshot.state
    pending = [(trial.config, trial) for trial in state.unprojected]
    pending += [
        (decision.config, state.trials[decision.reused_trial])
        for decision in decisions
        if isinstance(decision, Judge) and decision.verdict == "reused" and decision.config is not None
    ]
    if not pending:
        return ()
    bias = known_bias(snapshot.problem, snapshot.settings, snapshot.space, state)
    figures = (_figure(snapshot, config, trial, bias) for config, trial in pending)
    return tuple(figure for figure in figures if figure is not None)


def _figure(snapshot: Snapshot, config: TrainingConfig, trial: Trial, bias: Bias | None) -> ProjectedFigure | None:
    report = trial.report
    if report is None or report.profile is None:
        return None
    projection = cached_projection(snapshot.problem, snapshot.space, config, report)
    interval, _ = corrected_by(projection, bias)
    if interval is None:
        return None
    return ProjectedFigure(
        trial=trial.name,
        config_digest=config_digest(config),
        projected=six_digits(projection.tokens_per_second_per_gpu),
        low=six_digits(interval.low),
        high=six_digits(interval.high),
    )
