"""The search against truths that are known: a small part of `make bench-search`."""

from functools import partial
from statistics import fmean

import numpy as np
import pytest

from benchmarks.search.informed import features_of
from benchmarks.search.methods import METHODS, Method, Start, axis_sweep, models_best, surrogate
from benchmarks.search.problems import CASES, settings_of, space_of
from benchmarks.search.profile_protocol import method_finds, planner_finds, profile_truth_of
from benchmarks.search.runs import observed
from benchmarks.search.synergy import (
    GAIN,
    LEAST_LOSS,
    chance_knowing_all_but_schedule,
    finds,
    profile_synergy_of,
    synergy_of,
)
from benchmarks.search.trials import Trials, run
from benchmarks.search.truth import Truth, truth_of

DENSE, MIXTRAL, DEEPSEEK = CASES
SEEDS = (0, 1, 2)


def trials_on(truth: Truth, method: Method, most: int) -> Trials:
    given = Trials(truth.speeds, np.arange(len(truth.space)), truth.noise, most)
    return run(partial(method, Start(truth.space, settings_of(DENSE), truth.seed)), given)


def result(method: Method, error: float, most: int = 30) -> list[float]:
    truths = [truth_of(space_of(DENSE), seed, error) for seed in SEEDS]
    return [truth.share(trials_on(truth, method, most).after(most)[0]) for truth in truths]


@pytest.mark.parametrize("error", [0.04, 0.1, 0.2])
def test_a_truth_errs_by_what_was_asked_for(error: float) -> None:
    space = space_of(MIXTRAL)
    truth = truth_of(space, 1, error)
    fits = space.fits
    assert np.abs(truth.speeds[fits] / space.tokens_per_second_per_gpu[fits] - 1).mean() == pytest.approx(error)
    assert truth.speeds[~fits].max() == 0
    assert truth.best == truth.speeds.max()


def test_profiles_show_no_effect_of_axes_outside_the_profile_key() -> None:
    hidden = profile_truth_of(DENSE, 0, 0.1)
    keys = hidden.truth.space.key_index
    first = np.unique(keys, return_index=True)[1]
    assert hidden.layer_factors == pytest.approx(hidden.layer_factors[first][keys])
    fits = hidden.truth.space.fits
    assert np.abs(hidden.truth.speeds[fits] / hidden.projected[fits] - 1).max() > 0.05


@pytest.mark.parametrize("method", [*METHODS.values(), surrogate], ids=[*METHODS, "ours"])
def test_no_method_gets_more_trials_than_there_are(method: Method) -> None:
    if method in (METHODS["Optuna TPE"], METHODS["Optuna GP"]):
        pytest.importorskip("optuna")
    truth = truth_of(space_of(DENSE), 0, 0.1)
    trials = trials_on(truth, method, 8)
    assert len(trials.history) <= 8
    assert sum(len(readings) for readings in trials.readings.values()) <= 8


def test_what_another_process_is_asked_for_is_every_method_on_one_truth() -> None:
    found = observed(0, 0, 0.1, ("random", "model's best"))
    assert list(found) == ["random", "model's best", "ours"]
    truth = truth_of(space_of(DENSE), 0, 0.1)
    after = {most: truth.share(trials_on(truth, surrogate, most).after(most)[0]) for most in (10, 15)}
    assert [item.share for item in found["ours"][:2]] == pytest.approx(list(after.values()))


@pytest.mark.slow
def test_the_surrogate_comes_near_the_optimum_and_nearer_than_the_others() -> None:
    ours = result(surrogate, 0.1)
    assert fmean(ours) >= 0.98
    for name in ("random", "axis sweep, greedy", "two phases"):
        assert fmean(result(METHODS[name], 0.1)) < fmean(ours)


@pytest.mark.slow
def test_the_planner_comes_nearer_to_the_optimum_than_the_rows_that_the_model_has_best() -> None:
    hidden = [(case, profile_truth_of(case, seed, 0.2)) for case in (DENSE, MIXTRAL) for seed in range(5)]
    ours = fmean(planner_finds(case, truth, 27).share for case, truth in hidden)
    assert ours > fmean(method_finds(models_best, case, truth, (27,))[0].share for case, truth in hidden)


@pytest.mark.parametrize("seed", range(4))
def test_a_synergy_pays_only_when_all_three_come_together(seed: int) -> None:
    synergy = synergy_of(seed)
    speeds, twin, parts = synergy.truth.speeds, synergy.twins, synergy.parts
    assert speeds.max() == pytest.approx((1 + GAIN) * speeds[~synergy.wins].max())
    some = (parts > 0) & ~synergy.wins & (twin >= 0)
    some &= speeds[twin] > 0
    assert some.sum() > 100
    assert (speeds[some] <= (1 - LEAST_LOSS) * speeds[twin[some]]).all()
    assert (parts[twin[some]] == 0).all()
    baseline = synergy.space.row_of(synergy.baseline)
    assert baseline is not None and speeds[baseline] > 0 and parts[baseline] == 0


def test_of_a_synergy_profiles_show_all_but_the_part_of_the_schedule() -> None:
    synergy, hidden = profile_synergy_of(1)
    keys = synergy.space.key_index
    first = np.unique(keys, return_index=True)[1]
    assert hidden.layer_factors == pytest.approx(hidden.layer_factors[first][keys])
    assert hidden.truth.speeds is synergy.truth.speeds


def test_the_informed_search_expects_errors_as_large_as_they_are() -> None:
    space = space_of(CASES[0])
    expected = (features_of(space, seed=0, error=0.2)[space.fits] ** 2).sum(axis=1).mean()
    truths = [truth_of(space, seed, error=0.2).speeds[space.fits] for seed in range(5)]
    errors = [np.log(speeds / space.tokens_per_second_per_gpu[space.fits]).var() for speeds in truths]
    assert expected == pytest.approx(fmean(errors), rel=0.5)


def test_three_measurements_are_too_few_to_be_sure_of_one_of_four_schedules() -> None:
    assert chance_knowing_all_but_schedule(0) == pytest.approx(3 / 4)


def test_the_only_other_schedule_that_fits_is_measured_for_sure() -> None:
    assert chance_knowing_all_but_schedule(3) == 1.0


@pytest.mark.slow
def test_three_way_synergies_are_found_without_an_llm_and_by_no_axis_sweep() -> None:
    synergies = [synergy_of(seed) for seed in range(8)]
    assert sum(finds(surrogate, synergy) for synergy in synergies) >= 7
    assert not any(finds(axis_sweep, synergy) for synergy in synergies)
