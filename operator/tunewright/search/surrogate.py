"""What is expected of rows that nobody tried: the estimate times what a Gaussian process learnt of its error.

The process is on log(observed / estimated). Its prior mean is zero, so without observations it trusts the model.
Called by the explore phase, which asks for the next proposals by expected improvement, and by the briefing, which
shows its best candidates to the LLM.
"""

import copy
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from tunewright.domain.config_batch import BoolArray, FloatArray, IntArray
from tunewright.search.kernel import ALL_FIELDS
from tunewright.search.process import SHOWN_IN_PART, Prior, Process
from tunewright.search.space import Space

MOST_OBSERVATIONS = 256
MOST_CANDIDATES = 20_000
"""Unseen rows that are scored, best estimates first: keeps a decision fast over large spaces."""
SHORTLIST = 512
"""Rows that compete for the second and later proposals of one call."""
EARLY_DOUBT = 3.0
"""Widens the deviation that decides what to try by 1 + EARLY_DOUBT / (observations + 1).

Signal and shares are chosen from the observations themselves: with few of them the process is too sure of itself.
"""
SURPRISES_WAIT = 0.01
"""Expected improvement down to which surprises of combinations that nobody tried are left aside.

One trial of sizes tells of thousands of rows, one of a combination of itself alone: so sizes are learnt first.
"""


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
    """The process after some observations. Errors depend on `fields`, and `prior` is expected of them.

    `expected`: what rows would reach without any error, by default the estimates.
    """

    def __init__(
        self,
        space: Space,
        observations: Sequence[Observation],
        fields: Collection[str] = ALL_FIELDS,
        expected: FloatArray | None = None,
        prior: Prior = SHOWN_IN_PART,
    ) -> None:
        known = _informative(observations)
        rows = np.array([item.row for item in known], dtype=np.int64)
        observed = np.array([item.tokens_per_second_per_gpu for item in known])
        self.rows = rows
        """Rows of the observations that are learnt from."""
        self._space = space
        self._logs = _log_estimates(space) if expected is None else np.log(expected)
        self._doubt = 1 + EARLY_DOUBT / (len(observations) + 1)
        self._process = Process(space, rows, np.log(observed) - self._logs[rows], fields, prior)
        self._best = self._expected(rows).max() if len(rows) else self._logs[space.fits].max()

    def score(self, rows: IntArray) -> list[Scored]:
        """Score rows, most promising first."""
        mean, certain = self._process.predict(rows)
        sigma, gain = self._promised(rows, self._logs[rows] + mean, certain)
        order = np.lexsort((rows, -self._logs[rows], -np.round(gain, 7)))
        return [
            Scored(int(rows[i]), float(np.exp(self._logs[rows[i]] + mean[i])), float(sigma[i]), float(gain[i]))
            for i in order[:SHORTLIST]
        ]

    def _promised(self, rows: IntArray, mean: FloatArray, sigma: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the deviation and the expected improvement, with surprises once the rest promises little."""
        gain = expected_improvement(mean, self._doubt * sigma, self._best)
        if gain.max(initial=0.0) >= SURPRISES_WAIT:
            return sigma, gain
        wide = np.hypot(sigma, self._process.surprises(rows))
        return wide, expected_improvement(mean, self._doubt * wide, self._best)

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

    def _expected(self, rows: IntArray) -> FloatArray:
        """Return the expected log speed of rows: of observed ones, without their noise."""
        return self._logs[rows] + self._process.predict(rows)[0]

    def _believing(self, rows: IntArray) -> "Surrogate":
        """Return this surrogate with its own predictions taken for observations."""
        if not len(rows):
            return self
        other = copy.copy(self)
        other._best = max(self._best, self._expected(rows).max())  # what is believed is to be beaten too
        other._process = self._process.believing(rows)
        return other


def expected_improvement(mean: FloatArray, sigma: FloatArray, best: float) -> FloatArray:
    """Return E[max(0, f − best)] of normal f, elementwise (Jones, Schonlau, Welch 1998, equation 15)."""
    spread = np.maximum(sigma, 1e-12)
    z = (mean - best) / spread
    density = np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi)
    improvement: FloatArray = (mean - best) * ndtr(z) + spread * density
    return np.maximum(improvement, 0.0)


def _informative(observations: Sequence[Observation]) -> list[Observation]:
    """Keep at most `MOST_OBSERVATIONS`: the best half and the latest half."""
    if len(observations) <= MOST_OBSERVATIONS:
        return list(observations)
    half = MOST_OBSERVATIONS // 2
    latest, earlier = observations[-half:], observations[:-half]
    best = sorted(range(len(earlier)), key=lambda i: (-earlier[i].tokens_per_second_per_gpu, i))[:half]
    return [*(earlier[i] for i in sorted(best)), *latest]


def _log_estimates(space: Space) -> FloatArray:
    if "log estimates" not in space.memo:
        space.memo["log estimates"] = np.log(space.tokens_per_second_per_gpu)
    logs: FloatArray = space.memo["log estimates"]
    return logs
