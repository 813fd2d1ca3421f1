"""The methods that are compared: what each tries, one row after the other. Called by `protocols`.

Each gets the space, the baseline and its trials, and goes on until it is done or the trials are used. All get the
memory filter and the launch rules free: only rows that fit can be tried.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.search.trials import TOP, Trials
from tunewright.planner.explore import LEAST_EXPECTED_IMPROVEMENT
from tunewright.planner.settings import PlannerSettings
from tunewright.planner.sweep import sweep_plan
from tunewright.search.kernel import independent_axes
from tunewright.search.process import SHOWN_IN_FULL
from tunewright.search.space import Space
from tunewright.search.surrogate import Observation, Surrogate

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler

READINGS = 2
"""How often our best rows are read before less promising ones are tried."""
BEST_VALUES = 2
"""Values of each axis that the two-phase scheme combines."""
MOST_ASKED = 60
"""Points that a sampler may propose for one run, free answers included: it proposes some of them again and again."""


@dataclass(frozen=True)
class Start:
    """What every method is given."""

    space: Space
    settings: PlannerSettings
    seed: int

    @property
    def baseline_row(self) -> int:
        """The row of the baseline."""
        row = self.space.row_of(self.settings.baseline)
        assert row is not None, "the baseline is part of the space"
        return row


Method = Callable[[Start, Trials], None]


def random_rows(start: Start, trials: Trials) -> None:
    """Try rows that fit, in random order."""
    for row in np.random.default_rng([start.seed, 2]).permutation(np.flatnonzero(start.space.fits)):
        trials.try_row(int(row))


def models_best(start: Start, trials: Trials) -> None:
    """Try what the analytic model has best."""
    for row in start.space.ranking:
        trials.try_row(int(row))


def axis_sweep(start: Start, trials: Trials) -> None:
    """Go from axis to axis; hold the best value of each before the next."""
    current = start.baseline_row
    trials.try_row(current)
    for axis in _swept_axes(start):
        for row in _neighbours(start, current, axis):
            if trials.try_row(row) > trials.try_row(current):
                current = row


def two_phases(start: Start, trials: Trials) -> None:
    """Sweep each axis from the baseline with half of the trials; then try combinations of the best values."""
    baseline = start.baseline_row
    trials.try_row(baseline)
    seen: dict[str, dict[int, float]] = {}
    for axis in _swept_axes(start):
        column = start.space.batch.columns[axis]
        seen[axis] = {int(column[baseline]): trials.known[baseline]}
        for row in _neighbours(start, baseline, axis):
            if len(trials.history) < trials.most // 2:
                seen[axis][int(column[row])] = trials.try_row(row)
    for row in _combinations(start, seen):
        trials.try_row(row)


def surrogate(start: Start, trials: Trials) -> None:
    """Our surrogate: the baseline, then its proposals; the best of all are repeated when those promise too little.

    The policy of the explore and validate phases without a sweep, and without an end before the trials are used. It
    recommends the best posterior mean.
    """
    space = start.space
    trials.recommend = lambda: _best_by_mean(space, trials)
    trials.try_row(start.baseline_row)
    while True:
        is_open = space.fits.copy()
        is_open[list(trials.readings)] = False
        chosen = _learnt(space, trials).propose(is_open, [], 1)
        unsure = [row for row in trials.recommend() if len(trials.readings[row]) < READINGS]
        if chosen and (not unsure or chosen[0].expected_improvement >= LEAST_EXPECTED_IMPROVEMENT):
            trials.try_row(chosen[0].row)
        elif unsure:
            trials.repeat(unsure[0])
        else:
            return


def optuna_tpe(start: Start, trials: Trials) -> None:
    """Optuna's TPE; a point that does not exist becomes the nearest that fits, and a repeated one is free."""
    import optuna

    _optuna(start, trials, optuna.samplers.TPESampler(seed=start.seed))


def optuna_gp(start: Start, trials: Trials) -> None:
    """Optuna's Gaussian process; points are repaired and repeated as for TPE."""
    import optuna

    _optuna(start, trials, optuna.samplers.GPSampler(seed=start.seed, deterministic_objective=False))


METHODS: dict[str, Method] = {
    "random": random_rows,
    "axis sweep, greedy": axis_sweep,
    "two phases": two_phases,
    "model's best": models_best,
    "Optuna TPE": optuna_tpe,
    "Optuna GP": optuna_gp,
}
OPTUNA = ("Optuna TPE", "Optuna GP")


def _learnt(space: Space, trials: Trials) -> Surrogate:
    return Surrogate(space, [Observation(row, value) for row, value in trials.known.items()], prior=SHOWN_IN_FULL)


def _best_by_mean(space: Space, trials: Trials) -> list[int]:
    scored = _learnt(space, trials).score(np.array(list(trials.readings), dtype=np.int64))
    return [item.row for item in sorted(scored, key=lambda item: -item.mean_tokens_per_second_per_gpu)[:TOP]]


def _swept_axes(start: Start) -> list[str]:
    """Return the axes in the order of our own sweep: by expected effect."""
    return list(dict.fromkeys(step.axis for step in sweep_plan(start.space, start.settings)))


def _neighbours(start: Start, row: int, axis: str) -> list[int]:
    """Return the rows that fit and have another value of one axis, the rest as in `row` or repaired as we do."""
    settings = start.settings.model_copy(update={"baseline": start.space.config(row), "sweep_axes": (axis,)})
    rows = [start.space.row_of(step.config) for step in sweep_plan(start.space, settings)]
    return [found for found in rows if found is not None and start.space.fits[found]]


def _combinations(start: Start, seen: dict[str, dict[int, float]]) -> Iterator[int]:
    """Return the rows that combine the best values of every axis, those with the most of the best first."""
    best = {axis: sorted(values, key=lambda code: -values[code])[:BEST_VALUES] for axis, values in seen.items()}
    ranks = [range(len(values)) for values in best.values()]
    fitting = np.flatnonzero(start.space.fits)
    columns = {axis: start.space.batch.columns[axis][fitting] for axis in best}
    for choice in sorted(product(*ranks), key=sum):
        wanted = np.ones(len(fitting), dtype=bool)
        for (axis, values), rank in zip(best.items(), choice, strict=True):
            wanted &= columns[axis] == values[rank]
        for row in fitting[wanted]:
            yield int(row)


def _optuna(start: Start, trials: Trials, sampler: "BaseSampler") -> None:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    batch, ranking = start.space.batch, start.space.ranking
    axes = independent_axes(start.space)
    codes = np.stack([batch.columns[axis][ranking] for axis in axes], axis=1)
    values = {axis: np.unique(codes[:, index]).tolist() for index, axis in enumerate(axes)}
    study = optuna.create_study(direction="maximize", sampler=sampler)
    study.enqueue_trial({axis: values[axis].index(batch.columns[axis][start.baseline_row]) for axis in axes})
    for _ in range(MOST_ASKED):
        asked = study.ask()
        point = [values[axis][asked.suggest_int(axis, 0, len(values[axis]) - 1)] for axis in axes]
        row = int(ranking[(codes != point).sum(axis=1).argmin()])
        study.tell(asked, float(np.log(trials.try_row(row))))
