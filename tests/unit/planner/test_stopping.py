"""Why exploring ends, in words and with its number."""

import re

from tests.support.planning import a_run
from tunewright.planner.explore import LEAST_EXPECTED_IMPROVEMENT
from tunewright.planner.settings import Budget, ExploreSettings


def test_exploring_ends_with_the_expected_improvement_that_is_left() -> None:
    run = a_run(budget=Budget(max_trials=200), explore=ExploreSettings(patience=100)).to_end()
    said = re.fullmatch(r"the expected improvement left is ([0-9.]+)%, below ([0-9.]+)%", run.state.phase_reason)
    assert said, run.state.phase_reason
    left, least = (float(number) for number in said.groups())
    assert 0 <= left < least == 100 * LEAST_EXPECTED_IMPROVEMENT
    assert run.finish is not None
    assert run.finish.reason == "Converged"
    assert run.finish.message.startswith(f"explored until {said.group()}; ")
    assert len(run.state.profiles) < 200


def test_a_used_budget_is_the_reason_where_more_was_promised() -> None:
    run = a_run(budget=Budget(max_trials=4)).to_end()
    assert run.state.phase_reason == "the budget allows no further profile trial"
    assert run.finish is not None
    assert run.finish.reason == "BudgetExhausted"
