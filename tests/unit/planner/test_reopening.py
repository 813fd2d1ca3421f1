"""A higher budget lets a finished run go on: what is done stays, what is missing follows, and replay agrees."""

import pytest

from tests.support.planning import Run, a_run, failing, phases_of
from tests.support.records import AT
from tunewright.planner.records import SettingsChanged
from tunewright.planner.replay import replay
from tunewright.planner.settings import Budget


def with_budget(run: Run, **changes: object) -> Run:
    """Record that the person asks for another budget, or for more than that."""
    settings = run.state.settings or run.world.settings
    budget = {name: changes.pop(name) for name in list(changes) if name in Budget.model_fields}
    wanted = settings.model_copy(update={"budget": settings.budget.model_copy(update=budget), **changes})
    run.add(SettingsChanged(settings=wanted, at=AT))
    return run


def ended(run: Run) -> str:
    return run.finish.reason if run.finish else "not at all"


def test_more_trials_go_through_the_phases_again_without_repeating_what_is_done() -> None:
    run = a_run(budget=Budget(max_trials=2)).to_end()
    assert ended(run) == "BudgetExhausted"
    before = dict(run.state.trials)
    with_budget(run, max_trials=10).to_end()
    assert run.finish is not None
    assert 2 < len(run.state.profiles) <= 10
    assert {name: run.state.trials[name] for name in before} == before
    assert phases_of(run) == ["seed", "explore", "validate", "explore", "validate"]
    measured = [(trial.config, trial.start.repeat) for trial in run.state.measurements]
    assert len(measured) == len(set(measured))
    keys = [trial.start.profile_key for trial in run.state.profiles]
    assert len(keys) == len(set(keys))
    assert replay(run.records, run.space) is None


def test_a_run_that_could_afford_nothing_begins_when_it_can() -> None:
    run = a_run(budget=Budget(max_gpu_hours=0.001)).to_end()
    assert ended(run) == "BudgetExhausted"
    assert run.state.trials == {}
    with_budget(run, max_gpu_hours=None).to_end()
    assert ended(run) == "Converged"
    assert run.state.measurements
    assert replay(run.records, run.space) is None


def test_hours_that_were_used_for_validation_are_not_reserved_for_it_again() -> None:
    run = a_run(budget=Budget(max_trials=3, max_gpu_hours=1.0))
    run.world.used_share = 1.0
    run.to_end()
    used = sum(trial.gpu_seconds for trial in run.state.measurements)
    assert used > 0
    with_budget(run, max_trials=6, max_gpu_hours=1.1).to_end()
    assert len(run.state.profiles) > 3
    assert run.state.spent.gpu_seconds <= 1.1 * 3600


def test_failures_that_are_allowed_later_let_a_failed_run_go_on() -> None:
    run = a_run(fails=failing("NodeLost", "t0002"), max_attempts=1, budget=Budget(max_failed_trials=0)).to_end()
    assert ended(run) == "Failed"
    with_budget(run, max_failed_trials=1).to_end()
    assert ended(run) == "Converged"
    assert replay(run.records, run.space) is None


@pytest.mark.parametrize(
    "change", [{"max_trials": 1}, {"max_trials": 2}, {"max_llm_calls": 99}, {"parallel_trials": 2}]
)
def test_nothing_but_a_higher_limit_reopens(change: dict[str, object]) -> None:
    run = with_budget(a_run(budget=Budget(max_trials=2)).to_end(), **change)
    assert run.finish is not None
    assert not run.step()


def test_a_stopped_run_never_reopens() -> None:
    run = with_budget(a_run(), stop=True).to_end()
    assert ended(run) == "Stopped"
    with_budget(run, stop=False, max_trials=99)
    assert run.finish is not None


def test_a_converged_run_has_nothing_to_add_and_ends_as_before() -> None:
    run = a_run().to_end()
    trials = list(run.state.trials)
    with_budget(run, max_trials=99).to_end()
    assert ended(run) == "Converged"
    assert list(run.state.trials)[: len(trials)] == trials
    assert replay(run.records, run.space) is None
