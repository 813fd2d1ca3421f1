"""A Gaussian process on log(observed / estimated) over the enumerated space: where the analytic model is wrong.

Its prior mean is zero, so without observations it trusts the model. Called by the explore phase, which asks for the
next proposals by expected improvement, and by the briefing, which shows its best candidates to the LLM. Deterministic:
hyper-parameters come from a grid by marginal likelihood, scores are rounded before they are compared.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tunewright.domain.axes import AXES
from tunewright.domain.config_batch import BoolArray, FloatArray, IntArray
from tunewright.search.space import Space

SIGNALS = (0.1, 0.2, 0.4)
"""Candidates for the standard deviation of the model's log error; published analytic models err by 4 to 20 %.

Not less than 0.1: a few observations that agree with the model say little about axes that they do not vary.
"""
LENGTHS = (0.25, 0.5, 1.0, 2.0)
"""Candidates for the length scale of synergies, in feature units: rows that differ everywhere are 1.4 apart."""
DEFAULT_SIGNAL, DEFAULT_LENGTH = 0.2, 0.5
COMMON_SHARE = 0.5
"""Error that all rows have in common, as a share of the signal."""
ADDITIVE_SHARE = 0.7
"""Part of the error's variance that each axis is expected to add on its own; the rest is for their synergies."""
NOISE = 0.01
"""Relative noise of one observation."""
LEAST_OBSERVATIONS_TO_FIT = 4
MOST_OBSERVATIONS = 256
MOST_CANDIDATES = 20_000
"""Unseen rows that are scored, best estimates first: keeps a decision fast over large spaces."""
SHORTLIST = 512
"""Rows that compete for the second and later proposals of one call."""


@dataclass(frozen=True)
class Observation:
    """What is known of one row, by projection or measurement."""

    row: int
    tokens_per_second_per_gpu: float


@dataclass(frozen=True)
class Scored:
    """One unseen row: predicted log gain over the best observation, with its uncertainty."""

    row: int
    mean_tokens_per_second_per_gpu: float
    sigma: float
    """Relative, one standard deviation."""
    expected_improvement: float
    """In log units: 0.01 is one percent over the best known."""


class Surrogate:
    """The process after some observations."""

    def __init__(self, space: Space, observations: Sequence[Observation]) -> None:
        self._space = space
        self._features = _features(space)
        self._rows = np.array([item.row for item in _informative(observations)], dtype=np.int64)
        observed = np.array([item.tokens_per_second_per_gpu for item in _informative(observations)])
        self._logs = np.log(space.tokens_per_second_per_gpu)
        self._residuals = np.log(observed) - self._logs[self._rows]
        best = max((item.tokens_per_second_per_gpu for item in observations), default=0.0)
        self._best = float(np.log(best)) if best else float(self._logs[space.ranking[0]])
        self._process = _fitted(self._features[self._rows], self._residuals)

    def score(self, rows: IntArray) -> list[Scored]:
        """Score rows, most promising first."""
        mean, sigma = _predicted(self._process, self._features[rows])
        gain = expected_improvement(self._logs[rows] + mean, sigma, self._best)
        order = np.lexsort((rows, -self._logs[rows], -np.round(gain, 7)))
        return [
            Scored(int(rows[i]), float(np.exp(self._logs[rows[i]] + mean[i])), float(sigma[i]), float(gain[i]))
            for i in order[:SHORTLIST]
        ]

    def propose(self, candidates: BoolArray, pending: Sequence[int], count: int) -> list[Scored]:
        """Choose up to `count` rows among `candidates`, each as if the earlier ones had met their prediction.

        Rows of one profile group answer for each other, so only one of a group is chosen, and none of a group of
        `pending` rows, which have trials under way.
        """
        groups = self._space.key_index
        is_open = candidates & ~np.isin(groups, groups[np.array(pending, dtype=np.int64)])
        rows = self._space.ranking[is_open[self._space.ranking]][:MOST_CANDIDATES]
        believer = self._believing(np.array(pending, dtype=np.int64))
        chosen: list[Scored] = []
        while len(chosen) < count and len(rows):
            scored = believer.score(rows)
            chosen.append(scored[0])
            rows = np.array([item.row for item in scored], dtype=np.int64)
            rows = rows[self._space.key_index[rows] != self._space.key_index[scored[0].row]]
            believer = believer._believing(np.array([scored[0].row]))
        return chosen

    def _believing(self, rows: IntArray) -> "Surrogate":
        """Return this process with its own predictions taken for observations, hyper-parameters kept."""
        if not len(rows):
            return self
        mean, _ = _predicted(self._process, self._features[rows])
        other = object.__new__(Surrogate)
        other.__dict__.update(self.__dict__)
        other._rows = np.concatenate([self._rows, rows])
        other._residuals = np.concatenate([self._residuals, mean])
        other._best = max(self._best, float((self._logs[rows] + mean).max()))  # what is believed is to be beaten too
        other._process = _process(
            self._features[other._rows], other._residuals, self._process.signal, self._process.length
        )
        return other


def expected_improvement(mean: FloatArray, sigma: FloatArray, best: float) -> FloatArray:
    """Return E[max(0, f − best)] of normal f, elementwise (Jones, Schonlau, Welch 1998, equation 15)."""
    from scipy.stats import norm

    spread = np.maximum(sigma, 1e-12)
    z = (mean - best) / spread
    improvement: FloatArray = (mean - best) * norm.cdf(z) + spread * norm.pdf(z)
    return np.maximum(improvement, 0.0)


def _informative(observations: Sequence[Observation]) -> list[Observation]:
    """Keep at most `MOST_OBSERVATIONS`: the best half and the latest half."""
    if len(observations) <= MOST_OBSERVATIONS:
        return list(observations)
    half = MOST_OBSERVATIONS // 2
    latest, earlier = observations[-half:], observations[:-half]
    best = sorted(range(len(earlier)), key=lambda i: (-earlier[i].tokens_per_second_per_gpu, i))[:half]
    return [*(earlier[i] for i in sorted(best)), *latest]


def _features(space: Space) -> FloatArray:
    """Encode rows: one column per value of an axis, and half the binary logarithm of degrees; constants are dropped.

    Scaled by the number of axes, so that the inner product of a row with itself is about one.
    """
    if "features" not in space.memo:
        columns = [_encoded(space, axis.field, axis.kind == "degree") for axis in AXES]
        varying = [column for column in columns if column.shape[1]]
        constant = np.zeros((len(space), 1))
        space.memo["features"] = np.concatenate([constant, *varying], axis=1) / np.sqrt(max(len(varying), 1))
    features: FloatArray = space.memo["features"]
    return features


def _encoded(space: Space, field: str, is_degree: bool) -> FloatArray:
    column = space.batch.columns[field]
    codes = np.unique(column)
    if len(codes) < 2:
        return np.zeros((len(column), 0))
    one_hot: FloatArray = (column[:, None] == codes[None, :]).astype(np.float64)
    if not is_degree:
        return one_hot
    logarithm = 0.5 * np.log2(np.maximum(column, 0.5))
    return np.concatenate([one_hot, (logarithm - logarithm.mean())[:, None]], axis=1)


@dataclass(frozen=True)
class _Process:
    regressor: Any
    signal: float
    length: float
    observed: bool


def _process(features: FloatArray, residuals: FloatArray, signal: float, length: float) -> _Process:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct, Matern

    additive = ConstantKernel(ADDITIVE_SHARE * signal**2) * DotProduct(sigma_0=COMMON_SHARE)
    synergies = ConstantKernel((1 - ADDITIVE_SHARE) * signal**2) * Matern(length, nu=2.5)
    kernel = additive + synergies
    regressor = GaussianProcessRegressor(kernel, alpha=NOISE**2, optimizer=None)
    if len(residuals):
        regressor.fit(features, residuals)
    return _Process(regressor, signal, length, observed=len(residuals) > 0)


def _fitted(features: FloatArray, residuals: FloatArray) -> _Process:
    """Choose signal and length by marginal likelihood; the defaults while there is too little to learn from."""
    if len(residuals) < LEAST_OBSERVATIONS_TO_FIT:
        return _process(features, residuals, DEFAULT_SIGNAL, DEFAULT_LENGTH)
    processes = [_process(features, residuals, signal, length) for signal in SIGNALS for length in LENGTHS]
    return max(processes, key=lambda item: round(float(item.regressor.log_marginal_likelihood_value_), 6))


def _predicted(process: _Process, features: FloatArray) -> tuple[FloatArray, FloatArray]:
    if not process.observed:
        return np.zeros(len(features)), np.full(len(features), process.signal)
    mean, sigma = process.regressor.predict(features, return_std=True)
    return mean, sigma
