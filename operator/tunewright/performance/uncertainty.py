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

_EIGHT_BIT = ("fp8", "mxfp8")

_NORMAL_80 = 1.2816
"""Half width of an 80 % interval in standard deviations of a normal distribution."""

UNMEASURED = 1.25
"""Widening for each property that no row of the device and family has: 8-bit products, several nodes, and schedules
whose times few published rows fix."""


def interval_half_width(problem: TuningProblem, batch: ConfigBatch) -> FloatArray:
    """Return half the width of the 80 % interval of the logarithm of step time, per row.

    The interval of an estimate t is t·exp(−w) to t·exp(w).
    """
    fitted = problem.cluster.accelerator.calibration
    family = "moe" if problem.model.is_moe else "dense"
    width = fitted.interval_moe if problem.model.is_moe else fitted.interval_dense
    unknown = batch.is_("pipeline_schedule", *ZERO_BUBBLE_SCHEDULES).astype(np.int64)
    unknown += batch.is_("precision", *_EIGHT_BIT) & (kind(family, eight_bit=True) not in fitted.measured)
    unknown += problem.cluster.nodes > 1 and kind(family, nodes=2) not in fitted.measured
    widths: FloatArray = width * np.power(UNMEASURED, unknown.astype(np.float64))
    return widths


def kind(family: str, *, eight_bit: bool = False, nodes: int = 1) -> str:
    """Name a kind of rows that a calibration has seen, such as `moe 8-bit` or `dense several nodes`."""
    return f"{family} 8-bit" if eight_bit else f"{family} several nodes" if nodes > 1 else family


def relative_deviation(problem: TuningProblem, batch: ConfigBatch) -> FloatArray:
    """Return one standard deviation of relative step time, per row: what a search weighs an estimate with."""
    return interval_half_width(problem, batch) / _NORMAL_80
