"""A calibration judged on rows it has not seen: every source (or model) is left out once. Called by `calibrate`."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tunewright.calibration.fitting import Floats, Measurements, calibrated, points_without
from tunewright.calibration.measured_row import MeasuredRow
from tunewright.calibration.parameters import calibration_of
from tunewright.domain.config_batch import ConfigBatch
from tunewright.domain.hardware import Calibration
from tunewright.performance.uncertainty import interval_half_width

COVERED = 0.80
LEAST_WIDTH = 0.05
"""Half width of an interval at least: what submitters of one configuration differ by."""

LEFT_OUT: Mapping[str, Callable[[MeasuredRow], str]] = {
    "source": lambda row: row.source,
    "model": lambda row: row.model,
}
"""What rows have in common that are left out together."""


@dataclass(frozen=True)
class LeftOut:
    """One row with the residual of a fit that knew nothing of its source: log(estimated/measured)."""

    row: MeasuredRow
    residual: float


def leave_out(measurements: Measurements, point: Floats, by: str) -> list[LeftOut]:
    """Fit one accelerator's rows without each class of `by` in turn; return the residuals of that class.

    `point` is the fit with all rows.
    """
    classes: dict[str, list[int]] = defaultdict(list)
    for index, row in enumerate(measurements.rows):
        classes[LEFT_OUT[by](row)].append(index)
    sets = [np.array(indices, dtype=np.int64) for indices in classes.values()]
    base = Calibration()
    points = points_without(measurements, point, base, sets)
    found = []
    for indices, point in zip(sets, points, strict=True):
        members = [measurements.rows[int(index)] for index in indices]
        residuals = Measurements(members).residuals(calibration_of(point, base))
        found += [LeftOut(row, float(residual)) for row, residual in zip(members, residuals, strict=True)]
    return found


def interval_widths(own: Sequence[LeftOut], everyone: Sequence[LeftOut]) -> dict[str, float]:
    """Return half widths of the 80 % interval by family, from left-out residuals of this device and of all.

    A device with few rows leans on the others: its quantile counts with its number of rows, theirs with ten.
    """
    return {family: _width(_of(own, family), _of(everyone, family)) for family in ("dense", "moe")}


def covered(rows: Sequence[LeftOut], calibration: Calibration) -> list[bool]:
    """Return for each left-out row whether the interval of an estimate that did not know it has its measurement."""
    return [abs(item.residual) <= _half_width(item.row, calibration) for item in rows]


def _half_width(row: MeasuredRow, calibration: Calibration) -> float:
    return float(interval_half_width(calibrated(row.problem, calibration), ConfigBatch.of([row.config]))[0])


_PSEUDO_ROWS = 10


def _of(rows: Sequence[LeftOut], family: str) -> list[float]:
    return [abs(item.residual) for item in rows if item.row.family == family]


def _width(own: Sequence[float], everyone: Sequence[float]) -> float:
    shared = float(np.quantile(everyone, COVERED)) if everyone else 0.2
    mine = float(np.quantile(own, COVERED)) if own else shared
    mixed = (len(own) * mine + _PSEUDO_ROWS * shared) / (len(own) + _PSEUDO_ROWS)
    return round(max(LEAST_WIDTH, mixed), 3)
