"""The Gaussian process of the surrogate: fitted to log residuals, asked for mean and deviation. Called by `surrogate`.

Deterministic: signal and shares of the orders are the most probable of a grid, with the model's own interval as the
prior of the signal; scores are rounded before they are compared.
"""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from tunewright.domain.config_batch import FloatArray, IntArray
from tunewright.performance.uncertainty import relative_deviation
from tunewright.search.kernel import ALL_FIELDS, Features, axis_kernel
from tunewright.search.space import Space

NOISE = 0.01
"""Relative noise of one observation."""
SIGNALS = (0.07, 0.1, 0.15, 0.22, 0.32)
"""Candidates for the standard deviation of the model's log error; published analytic models err by 4 to 20 %."""
SIGNAL_PRIOR = 0.7
"""How far the true signal may be from the model's own interval: one standard deviation of its logarithm."""
SHARES = ((0.85, 0.12, 0.03), (0.7, 0.2, 0.1), (0.5, 0.3, 0.2), (0.3, 0.4, 0.3))
"""Candidates for the parts of the error that single axes, pairs and triples explain."""
DEFAULT_SHARES = SHARES[1]
MOST_TO_FIT = 64
"""Observations that choose signal and shares; more, evenly spaced, say the same."""
COMBINATION = 0.08
"""Deviation that a combination of implementations has of its own: DeepEP with a schedule and a recomputation, say."""
IMPLEMENTATIONS = ("moe_dispatcher", "pipeline_schedule", "recompute_granularity")
"""Axes that choose code rather than sizes: what they do together is in no formula."""
_LEAST_VARIANCE = 1e-12


@dataclass(frozen=True)
class Hyper:
    """What was chosen by marginal likelihood."""

    signal: float
    shares: tuple[float, float, float]


class Process:
    """The process after observations of `rows`, whose log residuals are `residuals`."""

    def __init__(
        self,
        space: Space,
        rows: IntArray,
        residuals: FloatArray,
        fields: Collection[str] = ALL_FIELDS,
        hyper: Hyper | None = None,
    ) -> None:
        self._space = space
        self._fields = fields
        self._kernel = axis_kernel(space, fields)
        self._spread = _spread(space)
        self._rows = rows
        self._residuals = residuals
        self._features = self._kernel.features(rows)
        self._combinations = _combinations(space, fields)
        self.hyper = hyper or self._most_probable()
        if len(rows):
            self._factor = cho_factor(self._covariance(self._between(self._features), self.hyper.signal), lower=True)
            self._weights = cho_solve(self._factor, residuals)

    def predict(self, rows: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and standard deviation of the log residual of each row."""
        features, spread = self._kernel.features(rows), self.hyper.signal * self._spread[rows]
        variance = self._kernel.variance(features, self.hyper.shares) * spread**2 + COMBINATION**2
        if not len(self._rows):
            return np.zeros(len(rows)), np.sqrt(variance)
        shared = self._between(features) * np.outer(self.hyper.signal * self._spread[self._rows], spread)
        shared += self._combined(rows)
        explained = solve_triangular(self._factor[0], shared, lower=True, check_finite=False)
        left = variance - np.einsum("ij,ij->j", explained, explained)
        mean: FloatArray = self._weights @ shared
        return mean, np.sqrt(np.maximum(left, _LEAST_VARIANCE))

    def believing(self, rows: IntArray) -> "Process":
        """Return this process with its own predictions of some rows taken for observations."""
        mean, _ = self.predict(rows)
        joined = np.concatenate([self._rows, rows])
        return Process(self._space, joined, np.concatenate([self._residuals, mean]), self._fields, self.hyper)

    def _between(self, features: Features) -> FloatArray:
        return self._kernel.between(self._features, features, self.hyper.shares)

    def _covariance(self, shape: FloatArray, signal: float) -> FloatArray:
        spread = signal * self._spread[self._rows]
        return shape * np.outer(spread, spread) + self._combined(self._rows) + NOISE**2 * np.eye(len(spread))

    def _combined(self, rows: IntArray) -> FloatArray:
        """Return the covariance of what observed rows and others share by having one combination of implementations."""
        return COMBINATION**2 * (self._combinations[self._rows][:, None] == self._combinations[rows][None, :])

    def _most_probable(self) -> Hyper:
        """Choose signal and shares; the prior's while there is nothing to learn from."""
        if len(self._rows) > MOST_TO_FIT:
            spaced = np.linspace(0, len(self._rows) - 1, MOST_TO_FIT).astype(np.int64)
            return Process(self._space, self._rows[spaced], self._residuals[spaced], self._fields).hyper
        prior = _prior_signal(self._space)
        if not len(self._rows):
            return Hyper(prior, DEFAULT_SHARES)
        grid = [Hyper(signal, shares) for shares in SHARES for signal in SIGNALS]
        shapes = {shares: self._kernel.between(self._features, self._features, shares) for shares in SHARES}
        scores = [self._log_probability(shapes[hyper.shares], hyper, prior) for hyper in grid]
        return grid[int(np.argmax(np.round(scores, 6)))]

    def _log_probability(self, shape: FloatArray, hyper: Hyper, prior: float) -> float:
        """Return the log marginal likelihood plus the log prior of the signal, both without constants."""
        factor = cho_factor(self._covariance(shape, hyper.signal), lower=True, check_finite=False)
        fit = self._residuals @ cho_solve(factor, self._residuals, check_finite=False)
        likelihood = -0.5 * fit - np.log(np.diag(factor[0])).sum()
        return float(likelihood - 0.5 * (np.log(hyper.signal / prior) / SIGNAL_PRIOR) ** 2)


def _deviations(space: Space) -> FloatArray:
    if "model deviation" not in space.memo:
        space.memo["model deviation"] = relative_deviation(space.problem, space.batch)
    deviations: FloatArray = space.memo["model deviation"]
    return deviations


def _combinations(space: Space, fields: Collection[str]) -> IntArray:
    """Number the combinations; all are one where fewer than three axes vary, since the kernel has the pairs."""
    key = ("combinations", tuple(fields))
    if key not in space.memo:
        columns = [space.batch.columns[name] for name in IMPLEMENTATIONS if name in fields]
        varying = [column for column in columns if len(np.unique(column)) > 1]
        table = np.stack(columns if len(varying) == len(IMPLEMENTATIONS) else [np.zeros(len(space))], axis=1)
        space.memo[key] = np.unique(table, axis=0, return_inverse=True)[1].reshape(-1)
    combinations: IntArray = space.memo[key]
    return combinations


def _prior_signal(space: Space) -> float:
    """Return the standard deviation that the model claims for a typical row."""
    return float(np.median(_deviations(space)))


def _spread(space: Space) -> FloatArray:
    """Return how much less sure the model is of each row than of a typical one."""
    return _deviations(space) / _prior_signal(space)
