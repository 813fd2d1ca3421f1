"""Hidden truths: the cost model times effects that no method is told. Called by the protocols and the tests.

An effect is drawn for every value of every axis, for every pair of values of some pairs of axes and for every triple of
values of some triples. All are scaled together until the model's mean absolute error over the fitting configurations
is the one that was asked for.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from tunewright.domain.config_batch import FloatArray, IntArray
from tunewright.search.kernel import independent_axes
from tunewright.search.space import Space

NOISE = 0.01
"""Relative noise of one trial."""
PAIRS, TRIPLES = 3, 2
"""How many pairs and triples of axes have effects of their own."""
SYNERGY = 0.5
"""Spread of a synergy, relative to that of one axis."""


@dataclass(frozen=True, eq=False)
class Truth:
    """Noise-free speeds of every row, in tokens/s/GPU; zero where a row does not fit."""

    space: Space
    seed: int
    speeds: FloatArray

    @cached_property
    def best(self) -> float:
        """The optimum, by enumeration."""
        return float(self.speeds.max())

    def share(self, row: int) -> float:
        """Return the truth of a row over the optimum's."""
        return float(self.speeds[row]) / self.best

    def noise(self, *key: int) -> float:
        """Return the factor of one reading, the same for the same key."""
        generator = np.random.default_rng([self.seed, 1, *key])
        return float(np.exp(NOISE * generator.standard_normal()))


def truth_of(space: Space, seed: int, error: float) -> Truth:
    """Return the truth of a seed in which the model errs by `error` on average."""
    effects = centred(space, sum(effect_groups(space, seed).values(), np.zeros(len(space))))
    factors = np.exp(scale_for(effects[space.fits], error) * effects)
    return Truth(space, seed, np.where(space.fits, space.tokens_per_second_per_gpu * factors, 0.0))


def effect_groups(space: Space, seed: int) -> dict[tuple[str, ...], FloatArray]:
    """Return the log effects of every row before scaling, by the axes that they depend on."""
    generator = np.random.default_rng([seed, 0])
    axes = independent_axes(space)
    spreads: dict[tuple[str, ...], float] = {(name,): 1.0 for name in axes}
    for size, count in ((2, PAIRS), (3, TRIPLES)):
        among = list(combinations(axes, size))
        chosen = generator.permutation(len(among))[:count]
        spreads |= {among[index]: SYNERGY for index in chosen}
    groups = {}
    for names, spread in spreads.items():
        level = levels(space, names)
        groups[names] = spread * generator.standard_normal(int(level.max()) + 1)[level]
    return groups


def centred(space: Space, effects: FloatArray) -> FloatArray:
    """Return effects without what is common to all fitting rows."""
    middle: float = effects[space.fits].mean()
    return effects - middle


def scale_for(effects: FloatArray, error: float) -> float:
    """Return the factor of log effects at which |exp(effect) − 1| is `error` on average."""
    low, high = 0.0, 10.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if np.abs(np.expm1(middle * effects)).mean() < error else (low, middle)
    return low


def levels(space: Space, names: Sequence[str]) -> IntArray:
    """Number the combinations of values: the same combination has the same number in every row."""
    level = np.zeros(len(space), dtype=np.int64)
    for name in names:
        values, code = np.unique(space.batch.columns[name], return_inverse=True)
        level = level * len(values) + code.reshape(-1)
    return level
