"""What an advisor does to a whole search on the simulated cluster: a good one speeds it up, a bad one costs nothing."""

import statistics
from collections.abc import Callable
from functools import cache

import pytest

from tests.support import advisors
from tests.support.advisors import Proposing, Searched, Slow, StandingClock, failing, search
from tests.support.builders import an_llm, mixtral_problem, settings_of
from tunewright.domain.training_config import TrainingConfig
from tunewright.planner.records import Advice
from tunewright.planner.replay import replay
from tunewright.planner.settings import Budget, ExploreSettings, PlannerSettings
from tunewright.search.space import Space, build_space

pytestmark = pytest.mark.slow

SEEDS = (0, 1, 2, 3)
MOST_LOSS = 0.01
"""Of the mean result: what bad advice may cost."""
BAD: dict[str, Callable[[Space, int], Proposing]] = {
    "worst fitting": advisors.worst,
    "plausible and slow": advisors.mediocre,
    "duplicates": advisors.duplicates,
    "out of space": advisors.out_of_space,
    "malformed": advisors.malformed,
    "injected": advisors.injected,
}


def settings(**changes: object) -> PlannerSettings:
    fields: dict[str, object] = {
        "llm": an_llm(),
        "baseline": TrainingConfig(pipeline_parallel_size=4, expert_parallel_size=8, cross_entropy_fusion=True),
        "search_space": {"pipeline_schedule": ("1f1b", "interleaved-1f1b"), "pipeline_layout": ("even",)},
        "sweep_axes": ("micro_batch_size",),
        "budget": Budget(max_trials=30),
        "explore": ExploreSettings(patience=5),
        "parallel_trials": 2,
    }
    return settings_of(mixtral_problem(), **(fields | changes))


@cache
def space() -> Space:
    return build_space(mixtral_problem(), settings())


_alone: dict[int, Searched] = {}


async def alone(seed: int) -> Searched:
    """Return the search without an LLM."""
    if seed not in _alone:
        _alone[seed] = await search(space(), settings(llm=None), seed, None)
    return _alone[seed]


async def mean_result(make: Callable[[Space, int], Proposing] | None) -> float:
    found = [
        await search(space(), settings(), seed, make(space(), seed)) if make else await alone(seed) for seed in SEEDS
    ]
    return statistics.fmean(item.recommended for item in found)


async def test_an_oracle_speeds_the_search_up() -> None:
    guided = [await search(space(), settings(), seed, advisors.oracle(space(), seed)) for seed in SEEDS]
    unguided = [await alone(seed) for seed in SEEDS]
    faster = statistics.fmean(item.trials_to(0.99) for item in guided)
    assert faster <= 0.75 * statistics.fmean(item.trials_to(0.99) for item in unguided)
    assert statistics.fmean(item.recommended for item in guided) >= (1 - MOST_LOSS) * await mean_result(None)


@pytest.mark.parametrize("make", BAD.values(), ids=BAD.keys())
async def test_bad_advice_costs_at_most_one_percent(make: Callable[[Space, int], Proposing]) -> None:
    assert await mean_result(make) >= (1 - MOST_LOSS) * await mean_result(None)


async def test_an_advisor_without_answers_costs_nothing() -> None:
    assert await mean_result(failing("Unreachable", "Timeout", "OverBudget", "Malformed")) >= await mean_result(None)


async def test_a_budget_for_one_question_ends_the_advice_and_not_the_search() -> None:
    advisor = advisors.worst(space(), 0)
    found = await search(space(), settings(budget=Budget(max_trials=30, max_llm_calls=2)), 0, advisor)
    assert len(advisor.asked) <= 2
    assert found.recommended >= (await alone(0)).recommended


async def test_a_run_whose_advisor_never_answers_ends_in_time() -> None:
    limit = 1800.0
    limited = settings(budget=Budget(max_trials=30, max_duration_seconds=limit))
    found = await search(space(), limited, 0, Slow(), StandingClock(tick=5.0))
    assert found.summary.state == "Succeeded"
    assert found.summary.spent.duration_seconds <= limit
    assert not [record for record in found.records if isinstance(record, Advice)]


async def test_bad_advice_shrinks_its_share_and_says_why() -> None:
    found = await search(space(), settings(), 0, advisors.mediocre(space(), 0))
    assert found.summary.advisor is not None
    assert found.summary.advisor.share_percent < 50
    assert "instead of 50 %" in found.summary.advisor.share_reason
    assert {item.status for item in found.summary.hypotheses} <= {"refuted", "untested"}


async def test_a_guided_search_replays_identically() -> None:
    found = await search(space(), settings(), 1, advisors.oracle(space(), 1))
    assert replay(found.records, space()) is None
