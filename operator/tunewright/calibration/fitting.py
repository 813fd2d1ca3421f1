"""Calibration of one accelerator: a robust least-squares fit of the logarithm of step time. Pure and deterministic.

Called by `validation` and `tunewright calibrate`. Minimised: the soft-L1 loss of log(estimated/measured) plus the
squared distance of every parameter from its start, in units of its spread, by Levenberg-Marquardt with numerical
derivatives. A source counts as a limited number of rows, so that a long table does not drown the others.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tunewright.calibration.measured_row import MeasuredRow
from tunewright.calibration.parameters import SPREADS, STARTS, calibration_of
from tunewright.domain.config_batch import ConfigBatch
from tunewright.domain.hardware import Calibration
from tunewright.domain.problem import TuningProblem
from tunewright.performance.software import Software
from tunewright.performance.step import estimate

Floats = NDArray[np.float64]

ROW_DEVIATION = 0.05
"""Spread of one configuration over submitters (MLPerf Training v5.1): what a row's logarithm is trusted to."""
SOFT_FROM = 1.5
"""Deviations beyond which a residual counts linearly."""
MOST_ROWS_PER_SOURCE = 60
STEP = 0.05
"""Step of the numerical derivative, in the logarithm."""
MAX_ITERATIONS = 14
_REWEIGHTINGS = 6
SMALL_GAIN = 1e-3
"""Relative gain of the loss below which the fit ends."""


@dataclass(frozen=True)
class _Group:
    """Rows that share everything but the configuration."""

    problem: TuningProblem
    software: Software
    batch: ConfigBatch
    index: NDArray[np.int64]


class Measurements:
    """Timed rows of one accelerator, ready to be estimated again and again."""

    def __init__(self, rows: Sequence[MeasuredRow]) -> None:
        self.rows = [row for row in rows if row.step_seconds]
        self._logarithms = np.log([row.step_seconds or 1.0 for row in self.rows])
        self._groups = _grouped(self.rows)
        counts: dict[str, int] = defaultdict(int)
        for row in self.rows:
            counts[row.source] += 1
        weights = [min(1.0, MOST_ROWS_PER_SOURCE / counts[row.source]) for row in self.rows]
        self.weights: Floats = np.array(weights)

    def residuals(self, calibration: Calibration) -> Floats:
        """Return log(estimated/measured) of every row."""
        found = np.zeros(len(self.rows))
        for group in self._groups:
            problem = calibrated(group.problem, calibration)
            step = estimate(problem, group.batch, software=group.software)
            found[group.index] = np.log(step.step_seconds)
        logarithms: Floats = found - self._logarithms
        return logarithms


def calibrated(problem: TuningProblem, calibration: Calibration) -> TuningProblem:
    """Return a problem with another calibration of its accelerator."""
    accelerator = problem.cluster.accelerator.model_copy(update={"calibration": calibration})
    cluster = problem.cluster.model_copy(update={"accelerator": accelerator})
    return problem.model_copy(update={"cluster": cluster})


def fit_calibration(measurements: Measurements, base: Calibration) -> Calibration:
    """Return the calibration that fits best; without rows, the start."""
    return calibration_of(fit_point(measurements, base), base)


def fit_point(measurements: Measurements, base: Calibration) -> Floats:
    """Return the fitted parameters' logarithms."""
    point, damping = STARTS.copy(), 1.0
    if not measurements.rows:
        return point
    residuals = measurements.residuals(calibration_of(point, base))
    loss = _loss(measurements, residuals, point)
    for _ in range(MAX_ITERATIONS):
        jacobian = _jacobian(measurements, residuals, point, base)
        step = _step(measurements, residuals, jacobian, point, damping)
        candidate = measurements.residuals(calibration_of(point + step, base))
        reached = _loss(measurements, candidate, point + step)
        if reached >= loss:
            damping *= 8
            if damping > 1e4:
                break
            continue
        gain = 1 - reached / loss
        point, residuals, loss, damping = point + step, candidate, reached, max(damping / 4, 1e-3)
        if gain < SMALL_GAIN:
            break
    return point


def points_without(
    measurements: Measurements, point: Floats, base: Calibration, left_out: Sequence[NDArray[np.int64]]
) -> list[Floats]:
    """Return, for each set of row numbers, the fit without them: residuals taken as linear around the whole fit.

    One Jacobian serves all sets. The starting values pull a parameter back that only the left-out rows fixed.
    """
    residuals = measurements.residuals(calibration_of(point, base))
    jacobian = _jacobian(measurements, residuals, point, base)
    found = []
    for rows in left_out:
        kept = np.setdiff1d(np.arange(len(residuals)), rows)
        found.append(_linear_fit(measurements.weights[kept], residuals[kept], jacobian[kept], point))
    return found


def _linear_fit(weights: Floats, residuals: Floats, jacobian: Floats, point: Floats) -> Floats:
    """Minimise the loss of a linear model, by reweighting until the weights settle."""
    prior: Floats = 1 / SPREADS**2
    moved, current = np.zeros_like(point), residuals
    for _ in range(_REWEIGHTINGS):
        scale = weights / np.sqrt(1 + (current / ROW_DEVIATION / SOFT_FROM) ** 2) / ROW_DEVIATION**2
        normal = jacobian.T @ (scale[:, None] * jacobian) + np.diag(prior)
        gradient = jacobian.T @ (scale * residuals) + prior * (point - STARTS)
        moved = np.asarray(-np.linalg.solve(normal, gradient), dtype=np.float64)
        current = residuals + jacobian @ moved
    reached: Floats = point + moved
    return reached


def _grouped(rows: Sequence[MeasuredRow]) -> list[_Group]:
    members: dict[tuple[str, Software], list[int]] = defaultdict(list)
    for index, row in enumerate(rows):
        members[row.problem.digest(), row.software].append(index)
    return [
        _Group(
            problem=rows[indices[0]].problem,
            software=software,
            batch=ConfigBatch.of([rows[index].config for index in indices]),
            index=np.array(indices, dtype=np.int64),
        )
        for (_, software), indices in members.items()
    ]


def _jacobian(measurements: Measurements, residuals: Floats, point: Floats, base: Calibration) -> Floats:
    columns = []
    for parameter in range(len(point)):
        moved = point.copy()
        moved[parameter] -= STEP  # downwards: an upper bound never hides the slope
        columns.append((residuals - measurements.residuals(calibration_of(moved, base))) / STEP)
    return np.stack(columns, axis=1)


def _step(measurements: Measurements, residuals: Floats, jacobian: Floats, point: Floats, damping: float) -> Floats:
    scaled = residuals / ROW_DEVIATION
    weights = measurements.weights / np.sqrt(1 + (scaled / SOFT_FROM) ** 2) / ROW_DEVIATION**2
    prior = 1 / SPREADS**2
    normal = jacobian.T @ (weights[:, None] * jacobian) + np.diag(prior)
    gradient = jacobian.T @ (weights * residuals) + prior * (point - STARTS)
    normal += damping * 0.1 * np.diag(np.diag(normal))
    step: Floats = np.clip(-np.linalg.solve(normal, gradient), -0.5, 0.5)
    return step


def _loss(measurements: Measurements, residuals: Floats, point: Floats) -> float:
    scaled = residuals / ROW_DEVIATION / SOFT_FROM
    rows = 2 * SOFT_FROM**2 * (np.sqrt(1 + scaled**2) - 1) * measurements.weights
    return float(rows.sum() + (((point - STARTS) / SPREADS) ** 2).sum())
