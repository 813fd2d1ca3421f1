"""What whole jobs are expected to reach: projections, corrected by what measurements said. Called by `validate`.

A profile shows layers, not schedules, pipelines or several nodes. What those do to one configuration they do to its
relatives: a Gaussian process on log(measured / projected) carries it over, to every row whose profile was taken.
"""

import numpy as np

from tunewright.domain.config_batch import FloatArray, IntArray
from tunewright.planner.follow_up import group_projections
from tunewright.planner.turn import Turn
from tunewright.search.surrogate import Observation, Scored, Surrogate

UNKNOWN = 1e-300
"""Stands for the projection of a row without a profile: its logarithm has to exist."""


def expected_jobs(turn: Turn, rows: IntArray, projected: FloatArray) -> list[Scored]:
    """Return rows with what a whole job of each is expected to reach, most promising first."""
    if not len(rows):
        return []
    return Surrogate(turn.snapshot.space, _measured(turn, projected), expected=projected).score(rows)


def projections_by_row(turn: Turn) -> FloatArray:
    """Return the projection of every fitting row whose profile was taken, in tokens/s/GPU; `UNKNOWN` elsewhere."""
    space = turn.snapshot.space
    found = np.full(len(space), UNKNOWN)
    for trial in turn.snapshot.state.profiles:
        row = space.row_of(trial.config)
        if row is not None and trial.report is not None and trial.report.profile is not None:
            rows, values = group_projections(turn, trial.report, int(space.key_index[row]))
            found[rows] = values
    return found


def _measured(turn: Turn, projected: FloatArray) -> list[Observation]:
    """Return what measured rows reach on all nodes: their projection without its bias on the nodes that ran."""
    return [
        Observation(item.row, float(projected[item.row]) / (1 + item.bias))
        for item in turn.evaluation.candidates
        if item.row is not None and item.bias is not None and projected[item.row] > UNKNOWN
    ]
