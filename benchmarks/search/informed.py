"""What a search reaches that is told how a truth was drawn: which axes act together, how much, and the trials' noise.

    python -m benchmarks.search.informed     seeds 2000 to 2031 of each problem, a model error of 20 %, two minutes

Its Gaussian process has the very distribution of the truth, and it tries the highest expected improvement, as ours
does. So what it misses is missed for want of trials, not by what was expected of errors. Called by nothing else.
"""

from functools import partial

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from benchmarks.search.methods import Method, Start, surrogate
from benchmarks.search.problems import CASES, Case, settings_of, space_of
from benchmarks.search.profile_protocol import Found
from benchmarks.search.runs import COUNTS, OURS
from benchmarks.search.tables import Result, print_table
from benchmarks.search.trials import TOP, Trials, run
from benchmarks.search.truth import NOISE, SYNERGY, centred, effect_groups, levels, scale_for, truth_of
from benchmarks.search.workers import workers
from tunewright.domain.config_batch import FloatArray, IntArray
from tunewright.search.space import Space
from tunewright.search.surrogate import expected_improvement

ERROR = 0.2
SEEDS = range(2000, 2032)


def main() -> None:
    """Print what the informed search and ours reach."""
    truths = [(case, seed) for seed in SEEDS for case in range(len(CASES))]
    with workers() as pool:
        found = list(pool.map(both, *zip(*truths, strict=True)))
    results = [Result("observation", ERROR, name, COUNTS, [one[name] for one in found]) for name in found[0]]
    print_table(f"observation protocol, model error {ERROR:.0%}", results)


def both(case: int, seed: int) -> dict[str, list[Found]]:
    """Run both on one truth."""
    space = space_of(CASES[case])
    told = partial(informed, features_of(space, seed, ERROR))
    return {"informed": _found(told, CASES[case], seed), OURS: _found(surrogate, CASES[case], seed)}


def informed(features: FloatArray, start: Start, trials: Trials) -> None:
    """Try what the exact posterior expects to improve most, and recommend its best mean."""
    space = start.space
    fitting = np.flatnonzero(space.fits)
    trials.recommend = lambda: _best_known(space, features, trials)
    trials.try_row(start.baseline_row)
    while True:
        rows = np.setdiff1d(fitting, list(trials.readings))
        mean, sigma = _posterior(space, features, trials, rows)
        best = _posterior(space, features, trials, np.array(list(trials.readings)))[0].max()
        trials.try_row(int(rows[expected_improvement(mean, sigma, best).argmax()]))


def features_of(space: Space, seed: int, error: float) -> FloatArray:
    """Return rows whose inner products are the covariances of the log errors of a truth, shape (rows, values)."""
    groups = effect_groups(space, seed)
    scale = scale_for(centred(space, sum(groups.values(), np.zeros(len(space))))[space.fits], error)
    parts = []
    for names in groups:
        values, code = np.unique(levels(space, names), return_inverse=True)
        spread = 1.0 if len(names) == 1 else SYNERGY
        parts.append(scale * spread * np.eye(len(values))[code.reshape(-1)])
    features = np.concatenate(parts, axis=1)
    middle: FloatArray = features[space.fits].mean(axis=0)
    return features - middle


def _posterior(space: Space, features: FloatArray, trials: Trials, rows: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return mean and standard deviation of the log speed of rows."""
    tried = np.array(list(trials.readings))
    estimates = np.log(space.tokens_per_second_per_gpu)
    residuals = np.log(list(trials.known.values())) - estimates[tried]
    factor = cho_factor(features[tried] @ features[tried].T + NOISE**2 * np.eye(len(tried)))
    shared = features[tried] @ features[rows].T
    variance = (features[rows] ** 2).sum(axis=1) - (shared * cho_solve(factor, shared)).sum(axis=0)
    return estimates[rows] + cho_solve(factor, residuals) @ shared, np.sqrt(np.maximum(variance, 0.0))


def _best_known(space: Space, features: FloatArray, trials: Trials) -> list[int]:
    rows = np.array(list(trials.readings))
    order = np.argsort(-_posterior(space, features, trials, rows)[0], kind="stable")
    return [int(row) for row in rows[order][:TOP]]


def _found(method: Method, case: Case, seed: int) -> list[Found]:
    truth = truth_of(space_of(case), seed, ERROR)
    trials = Trials(truth.speeds, np.arange(len(truth.speeds)), truth.noise, max(COUNTS))
    run(partial(method, Start(truth.space, settings_of(case), seed)), trials)
    return [Found(truth.share(trials.after(count)[0]), trials.reused) for count in COUNTS]


if __name__ == "__main__":
    main()
