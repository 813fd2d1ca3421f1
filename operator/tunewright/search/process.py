"""The Gaussian process of the surrogate: fitted to log residuals, asked for mean and deviation. Called by `surrogate`.

Deterministic: signal and shares of the orders are the most probable of a grid, with the model's own interval as the
prior of the signal; scores are rounded before they are compared.
"""

from collections.abc import Collection, Mapping
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
MOST_TO_FIT = 64
"""Observations that choose signal and shares; more, evenly spaced, say the same."""
IMPLEMENTATIONS = ("moe_dispatcher", "pipeline_schedule", "recompute_granularity")
"""Axes that choose code rather than sizes: what they do together is in no formula."""
_LEAST_VARIANCE = 1e-12
_BLOCK = 512

Shares = tuple[float, float, float]


@dataclass(frozen=True, eq=False)
class Prior:
    """What is expected of the model's errors before any is seen."""

    shares: Mapping[Shares, float]
    """Candidates for the parts that single axes, pairs and triples explain, and how likely each is; a default first."""
    combination: float
    """Deviation that rows share that were made with one combination of implementations."""
    surprise: float
    """What a combination that nobody tried may deviate beside that: DeepEP with a schedule and a recomputation, say."""
    is_sure_of_all: bool
    """Whether the model is as sure of each row; else as sure as its interval says, which widens with the schedule."""


SHOWN_IN_FULL = Prior(
    {(0.85, 0.12, 0.03): 1.0, (0.7, 0.2, 0.1): 0.3, (0.5, 0.3, 0.2): 0.1, (0.3, 0.4, 0.3): 0.03}, 0.02, 0.16, True
)
"""Where a trial shows all that varies. Effects of single axes are usually the largest, then those of pairs (the
hierarchy of effects in designed experiments, as in Wu and Hamada, "Experiments"): without this, ten observations choose
the shares by their noise.
"""
SHOWN_IN_PART = Prior(
    {(0.7, 0.2, 0.1): 1.0, (0.85, 0.12, 0.03): 1.0, (0.5, 0.3, 0.2): 1.0, (0.3, 0.4, 0.3): 1.0}, 0.08, 0.0, False
)
"""Where schedules act on jobs and on no profile: surprises are expected at once, since few jobs are measured."""


@dataclass(frozen=True)
class Hyper:
    """What was chosen by marginal likelihood."""

    signal: float
    shares: Shares


@dataclass(frozen=True, eq=False)
class Kinds:
    """Rows told apart by some fields alone."""

    first: IntArray
    """A row of each kind."""
    of_row: IntArray


class Process:
    """The process after observations of `rows`, whose log residuals are `residuals` and depend on `fields`."""

    def __init__(
        self,
        space: Space,
        rows: IntArray,
        residuals: FloatArray,
        fields: Collection[str] = ALL_FIELDS,
        prior: Prior = SHOWN_IN_PART,
        hyper: Hyper | None = None,
    ) -> None:
        self._space = space
        self._fields = fields
        self._kernel = axis_kernel(space, fields)
        self.prior = prior
        self._spread = None if prior.is_sure_of_all else _spread(space)
        self._rows = rows
        self._residuals = residuals
        self._features = self._kernel.features(rows)
        self._combinations = _combinations(space, fields)
        self._kinds = _kinds(space, fields, self._spread)
        self.hyper = hyper or self._most_probable()
        if len(rows):
            shape = self._between(self._features, rows)
            self._factor = cho_factor(self._covariance(shape, self.hyper.signal), lower=True)
            self._weights = cho_solve(self._factor, residuals)

    def predict(self, rows: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and standard deviation of the log residual of each row.

        Rows that are alike in all that errors depend on have the same: there is one column to solve for each kind.
        """
        kinds, kind_of = np.unique(self._kinds.of_row[rows], return_inverse=True)
        blocks = np.split(kinds, range(_BLOCK, len(kinds), _BLOCK))  # their tables stay in the processor's cache
        found = [self._of_kinds(self._kinds.first[block]) for block in blocks]
        mean, variance = np.concatenate(found, axis=1)[:, kind_of.reshape(-1)]
        return mean, np.sqrt(np.maximum(variance, _LEAST_VARIANCE))

    def surprises(self, rows: IntArray) -> FloatArray:
        """Return the deviation beside the others that rows have by a combination that no observation has."""
        untried = ~np.isin(self._combinations[rows], self._combinations[self._rows])
        return np.where(untried, self.prior.surprise, 0.0)

    def believing(self, rows: IntArray) -> "Process":
        """Return this process with its own predictions of some rows taken for observations."""
        mean, _ = self.predict(rows)
        joined = np.concatenate([self._rows, rows])
        return self._of(joined, np.concatenate([self._residuals, mean]), self.hyper)

    def _of(self, rows: IntArray, residuals: FloatArray, hyper: Hyper | None = None) -> "Process":
        return Process(self._space, rows, residuals, self._fields, self.prior, hyper)

    def _of_kinds(self, rows: IntArray) -> FloatArray:
        """Return mean and variance, shape (2, rows)."""
        features, signal = self._kernel.features(rows), self.hyper.signal
        variance = self._kernel.variance(features, self.hyper.shares) * (signal * self._unsure(rows)) ** 2
        variance += self.prior.combination**2
        if not len(self._rows):
            return np.stack([np.zeros(len(rows)), variance])
        shared = signal**2 * self._between(features, rows) + self._combined(rows)
        explained = solve_triangular(self._factor[0], shared, lower=True, check_finite=False)
        return np.stack([self._weights @ shared, variance - np.einsum("ij,ij->j", explained, explained)])

    def _unsure(self, rows: IntArray) -> FloatArray:
        return np.ones(len(rows)) if self._spread is None else self._spread[rows]

    def _between(self, features: Features, rows: IntArray, shares: Shares | None = None) -> FloatArray:
        """Return the covariance of observed rows and others for a signal of one."""
        shape = self._kernel.between(self._features, features, shares or self.hyper.shares)
        return shape if self._spread is None else shape * np.outer(self._spread[self._rows], self._spread[rows])

    def _covariance(self, shape: FloatArray, signal: float) -> FloatArray:
        return signal**2 * shape + self._combined(self._rows) + NOISE**2 * np.eye(len(self._rows))

    def _combined(self, rows: IntArray) -> FloatArray:
        """Return the covariance of what observed rows and others share by having one combination of implementations."""
        return self.prior.combination**2 * (
            self._combinations[self._rows][:, None] == self._combinations[rows][None, :]
        )

    def _most_probable(self) -> Hyper:
        """Choose signal and shares; the prior's while there is nothing to learn from."""
        if len(self._rows) > MOST_TO_FIT:
            spaced = np.linspace(0, len(self._rows) - 1, MOST_TO_FIT).astype(np.int64)
            return self._of(self._rows[spaced], self._residuals[spaced]).hyper
        if not len(self._rows):
            return Hyper(_prior_signal(self._space), next(iter(self.prior.shares)))
        grid = [Hyper(signal, shares) for shares in self.prior.shares for signal in SIGNALS]
        shapes = {shares: self._between(self._features, self._rows, shares) for shares in self.prior.shares}
        scores = [self._log_probability(shapes[hyper.shares], hyper) for hyper in grid]
        return grid[int(np.argmax(np.round(scores, 6)))]

    def _log_probability(self, shape: FloatArray, hyper: Hyper) -> float:
        """Return the log marginal likelihood plus the log prior of signal and shares, without constants."""
        factor = cho_factor(self._covariance(shape, hyper.signal), lower=True, check_finite=False)
        fit = self._residuals @ cho_solve(factor, self._residuals, check_finite=False)
        likelihood = -0.5 * fit - np.log(np.diag(factor[0])).sum()
        distance = np.log(hyper.signal / _prior_signal(self._space)) / SIGNAL_PRIOR
        return float(likelihood + np.log(self.prior.shares[hyper.shares]) - 0.5 * distance**2)


def _kinds(space: Space, fields: Collection[str], spread: FloatArray | None) -> Kinds:
    """Tell rows apart by fields, and by how sure the model is of them where that counts."""
    key = ("kinds", tuple(fields), spread is None)
    if key not in space.memo:
        first, of_row = space.batch.distinct(tuple(fields))
        if spread is not None:
            levels = np.unique(spread, return_inverse=True)[1].reshape(-1)
            both = of_row * (levels.max(initial=0) + 1) + levels
            _, first, of_row = np.unique(both, return_index=True, return_inverse=True)
        space.memo[key] = Kinds(first, of_row.reshape(-1))
    kinds: Kinds = space.memo[key]
    return kinds


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


def _spread(space: Space) -> FloatArray:
    """Return how much less sure the model is of each row than of a typical one."""
    return _deviations(space) / _prior_signal(space)


def _prior_signal(space: Space) -> float:
    """Return the standard deviation that the model claims for a typical row."""
    return float(np.median(_deviations(space)))


def _deviations(space: Space) -> FloatArray:
    if "model deviation" not in space.memo:
        space.memo["model deviation"] = relative_deviation(space.problem, space.batch)
    deviations: FloatArray = space.memo["model deviation"]
    return deviations
