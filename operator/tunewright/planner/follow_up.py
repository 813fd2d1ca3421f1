"""What a profile says about its neighbours: the best configurations with the same profile key, projected for free.

A profile depends on the shapes of one rank; schedule, pipeline depth and data parallelism enter by simulation. So one
trial answers for its whole group. Called by `explore` after each profile.
"""

import numpy as np

from tunewright.domain.axes import describe
from tunewright.domain.config_batch import FloatArray, IntArray
from tunewright.performance.profiled import profiled_layer_times
from tunewright.performance.step import estimate
from tunewright.planner.decisions import Origin
from tunewright.planner.evaluation import once_per_report
from tunewright.planner.trial import Trial
from tunewright.planner.turn import Turn
from tunewright.trial_protocol.report import TrialReport

LEAST_GAIN = 0.001
"""A neighbour is worth naming when it is better than the profiled configuration by this share."""


def follow_up(turn: Turn) -> None:
    """Project the best neighbours of each profile that were not proposed yet: the best, and the best other schedule."""
    tally = turn.snapshot.state.tally
    for trial in sorted(tally.profiled[tally.followed_up :], key=lambda trial: trial.place):
        if trial.report is not None:
            _follow_up(turn, trial, trial.report)


def group_projections(turn: Turn, report: TrialReport, group: int) -> tuple[IntArray, FloatArray]:
    """Return the fitting rows of a profile group and their projected tokens/s/GPU; computed once per report."""
    space = turn.snapshot.space

    def compute() -> tuple[IntArray, FloatArray]:
        rows = np.flatnonzero((space.key_index == group) & space.fits)
        return rows, _projected(turn, report, rows) if len(rows) else np.zeros(0)

    return once_per_report(space, report, ("group",), compute)


def _projected(turn: Turn, report: TrialReport, rows: IntArray) -> FloatArray:
    problem, batch = turn.snapshot.problem, turn.snapshot.space.batch.take(rows)
    if report.profile is None:
        return np.zeros(len(rows))
    times = profiled_layer_times(problem, batch, report.profile).times
    return estimate(problem, batch, times, report.profile.collectives).tokens_per_second_per_gpu


def _follow_up(turn: Turn, trial: Trial, report: TrialReport) -> None:
    space = turn.snapshot.space
    own = turn.evaluation.by_config.get(trial.config)
    row = space.row_of(trial.config)
    if row is None or own is None or own.projected is None:
        return
    rows, projected = group_projections(turn, report, int(space.key_index[row]))
    for best in _best_and_other_schedule(turn, rows, projected):
        value, config = float(projected[best]), space.config(int(rows[best]))
        if value > own.projected * (1 + LEAST_GAIN) and not turn.is_seen(config):
            reason = f"{describe(config)}: {value / own.projected - 1:+.1%} over {trial.name} by projection"
            origin = Origin(phase="explore", proposed_by="surrogate", round=trial.origin.round, reason=reason)
            turn.reuse(config, origin, trial)


def _best_and_other_schedule(turn: Turn, rows: IntArray, projected: FloatArray) -> list[int]:
    order = np.lexsort((rows, -np.round(projected, 6)))
    schedules = turn.snapshot.space.batch.pipeline_schedule[rows]
    others = [int(i) for i in order if schedules[i] != schedules[order[0]]]
    return [int(i) for i in order[:1]] + others[:1]
