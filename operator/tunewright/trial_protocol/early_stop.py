"""When a measurement is clearly losing, so that the rest of its steps is not worth running. Pure.

Called by the trial program after each timed step, and by the simulated trials, which stop alike.
"""

import statistics
from collections.abc import Sequence

LEAST_STEPS = 4
"""Fewer have no quartiles to speak of."""


def is_losing(step_seconds: Sequence[float], cutoff_step_seconds: float | None) -> bool:
    """Tell whether the median of these steps is beyond the cutoff, and with its spread: their lower quartile too."""
    if cutoff_step_seconds is None or len(step_seconds) < LEAST_STEPS:
        return False
    return statistics.quantiles(step_seconds, n=4, method="inclusive")[0] > cutoff_step_seconds
