"""The twelve numbers of a calibration as a fit sees them: where it starts, and how far it may move. Read by `fitting`.

Starting values are the middle of the devices that have measurements; a number that a device's rows say nothing about
stays where it starts.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tunewright.domain.hardware import Calibration


@dataclass(frozen=True)
class Parameter:
    """One number, fitted on a logarithmic scale."""

    field: str
    spread: float
    """Standard deviation of the logarithm that a device may differ by from the start."""
    most: float
    """Upper bound."""

    @property
    def start(self) -> float:
        """Value of a device without measurements."""
        return float(Calibration.model_fields[self.field].default)


PARAMETERS = (
    Parameter("sustained_matmul", 0.2, 1.6),
    Parameter("fp8_matmul", 0.2, 2.0),
    Parameter("grouped_matmul", 0.3, 1.6),
    Parameter("attention", 0.25, 1.4),
    Parameter("host_seconds_per_layer", 0.6, 5e-3),
    Parameter("host_seconds_per_expert_layer", 0.6, 2e-2),
    Parameter("tensor_overlap", 0.4, 1.0),
    Parameter("expert_bandwidth", 0.3, 2.0),
    Parameter("step_overhead_seconds", 0.7, 0.5),
    Parameter("hbm_bandwidth", 0.15, 1.25),
    Parameter("scale_up_bandwidth", 0.2, 1.3),
    Parameter("scale_out_bandwidth", 0.3, 1.25),
)

STARTS: NDArray[np.float64] = np.log([parameter.start for parameter in PARAMETERS])
SPREADS: NDArray[np.float64] = np.array([parameter.spread for parameter in PARAMETERS])


def calibration_of(point: NDArray[np.float64], base: Calibration) -> Calibration:
    """Return `base` with the fitted numbers at a point of the logarithmic space, to four digits."""
    values = {
        parameter.field: float(f"{min(np.exp(value), parameter.most):.4g}")
        for parameter, value in zip(PARAMETERS, point, strict=True)
    }
    return base.model_copy(update=values)
