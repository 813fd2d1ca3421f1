"""What a run is expected to take, said before anything runs."""

import pytest

from tests.support.builders import a_cluster, a_problem, an_llm, settings_of, small_space
from tests.support.planning import Run, a_run
from tunewright.planner.forecast import Forecast, forecast
from tunewright.planner.settings import Budget, ExploreSettings, PlannerSettings
from tunewright.planner.summary import summarise
from tunewright.search.space import build_space

LIMITS = Budget(max_trials=7, max_gpu_hours=0.4, max_duration_seconds=600, max_llm_calls=1, max_llm_cost_usd=1e-4)


def forecast_of(run: Run) -> Forecast:
    return forecast(run.world.problem, run.world.settings, run.space)


def test_a_run_takes_about_what_was_forecast_before_it_began() -> None:
    run = a_run(budget=Budget(max_trials=20))
    run.world.used_share = 1.0
    expected = forecast_of(run)
    run.to_end()
    spent = summarise(run.world.problem, run.world.settings, run.space, run.state).spent
    assert len(run.state.profiles) <= expected.trials <= 2 * len(run.state.profiles)
    assert expected.validations == len(run.state.measurements)
    assert spent.gpu_hours / 2 <= expected.gpu_hours <= 2 * spent.gpu_hours
    assert (expected.llm_calls, expected.llm_cost_usd) == (0, 0)
    assert forecast_of(run) == expected, "a forecast looks at estimates alone"


def test_no_limit_of_the_budget_is_forecast_to_be_exceeded() -> None:
    settings = settings_of(a_problem(), llm=an_llm(), budget=LIMITS)
    expected = forecast(a_problem(), settings, small_space())
    assert expected.trials == LIMITS.max_trials
    assert expected.gpu_hours == LIMITS.max_gpu_hours
    assert expected.duration_seconds == LIMITS.max_duration_seconds
    assert expected.llm_calls == LIMITS.max_llm_calls
    assert expected.llm_cost_usd == LIMITS.max_llm_cost_usd


@pytest.mark.parametrize("share", [25, 50, 100])
def test_the_calls_of_an_llm_follow_its_share_of_the_rounds(share: int) -> None:
    def asking(percent: int) -> PlannerSettings:
        explore = ExploreSettings(llm_share_percent=percent, patience=6)
        return settings_of(a_problem(), llm=an_llm(), explore=explore)

    all_rounds = forecast(a_problem(), asking(100), small_space())
    expected = forecast(a_problem(), asking(share), small_space())
    assert expected.llm_calls == all_rounds.llm_calls * share // 100
    assert expected.llm_cost_usd is not None and all_rounds.llm_cost_usd is not None
    # Not to the last digit: the prompt says how many of the proposals are asked for.
    assert expected.llm_cost_usd == pytest.approx(all_rounds.llm_cost_usd * share / 100, rel=0.01)


def test_where_nothing_fits_nothing_is_expected_to_run() -> None:
    problem = a_problem(cluster=a_cluster(hbm_capacity_bytes=2**20))
    settings = settings_of(problem, llm=an_llm())
    expected = forecast(problem, settings, build_space(problem, settings))
    assert (expected.trials, expected.validations, expected.gpu_hours, expected.llm_calls) == (0, 0, 0, 0)
