"""How far a step time may be off: the interval of an estimate, from measured residuals. Read by search and planner.

Widths come from the residuals of rows that were left out of the fit, by device and family; schedules and scales that
few measurements cover widen them.
"""

import numpy as np

from tunewright.domain.config_batch import ConfigBatch, FloatArray
from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import ZERO_BUBBLE_SCHEDULES

COVERAGE = 0.80
"""Share of measurements that the interval is meant to contain."""

_NORMAL_80 = 1.2816
"""Half width of an 80 % interval in standard deviations of a normal distribution."""

_UNMEASURED_SCHEDULE = 1.25
"""Widening for schedules whose times few published rows fix."""


def interval_half_width(problem: TuningProblem, batch: ConfigBatch) -> FloatArray:
    """Return half the width of the 80 % interval of the logarithm of step time, per row.

    The interval of an estimate t is t·exp(−w) to t·exp(w).
    """
    fitted = problem.cluster.accelerator.calibration
    width = fitted.interval_moe if problem.model.is_moe else fitted.interval_dense
    rare = batch.is_("pipeline_schedule", *ZERO_BUBBLE_SCHEDULES)
    widths: FloatArray = np.where(rare, width * _UNMEASURED_SCHEDULE, width)
    return widths


def relative_deviation(problem: TuningProblem, batch: ConfigBatch) -> FloatArray:
    """Return one standard deviation of relative step time, per row: what a search weighs an estimate with."""
    return interval_half_width(problem, batch) / _NORMAL_80
