"""The LLM's part: what is asked, what becomes of its proposals, and what happens without an answer."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from tests.support.builders import a_problem, an_llm, settings_of, small_space
from tests.support.planning import Run, World, hidden_effect
from tests.support.records import AT, an_advice
from tunewright.domain.training_config import TrainingConfig
from tunewright.planner.decide import decide
from tunewright.planner.decisions import AskAdvisor, Decision, Judge, StartTrial
from tunewright.planner.records import Advice, AdviceUsage, ProposedConfig, Round
from tunewright.planner.settings import Budget, ExploreSettings
from tunewright.planner.summary import summarise

USAGE = AdviceUsage(input_tokens=1000, output_tokens=200, cost_usd=0.01)


def answering(*changes: dict[str, Any]) -> Callable[[AskAdvisor], Advice]:
    """An advisor that proposes the same each time."""
    proposals = tuple(ProposedConfig(changes=change, reason="because") for change in changes)
    return lambda ask: an_advice(ask.round, proposals=proposals, usage=USAGE)


def silent(ask: AskAdvisor) -> Advice:
    return Advice(round=ask.round, outcome="failed", condition_reason="Unreachable", message="no route", at=AT)


def a_run(advises: Callable[[AskAdvisor], Advice], **changes: object) -> Run:
    problem = a_problem()
    fields: dict[str, object] = {
        "llm": an_llm(),
        "sweep_axes": ("micro_batch_size",),
        "explore": ExploreSettings(proposals_per_round=2, patience=3),
    }
    settings = settings_of(problem, **(fields | changes))
    effect = hidden_effect(7, 0.2, "tensor_parallel_size", "micro_batch_size", "recompute_granularity")
    return Run.of(World(problem, settings, profile_factor=effect, advises=advises), small_space())


def llm_proposals(run: Run) -> list[StartTrial | Judge]:
    return [item for item in run.state.proposals if item.origin.proposed_by == "llm"]


def test_a_proposal_becomes_a_trial_with_its_reason() -> None:
    run = a_run(answering({"mbs": 8, "recompute": "full"})).to_end()
    first = llm_proposals(run)[0]
    assert isinstance(first, StartTrial)
    assert first.config.micro_batch_size == 8
    assert first.config.recompute_granularity == "full"
    assert first.origin.reason == "because"


@pytest.mark.parametrize(
    ("changes", "verdict", "message"),
    [
        ({"warp_drive": 9}, "unreadable", "is not an axis"),
        ({"tp": "two"}, "unreadable", "whole number"),
        ({"tp": {"value": 2}}, "unreadable", "not a value"),
        ({"tp": 2, "tensor": 4}, "unreadable", "named twice"),
        ({"tp": 3}, "illegal", "does not divide"),
        ({"recompute_method": "block", "recompute": "full"}, "outside", "not among the values"),
        ({}, "duplicate", "already"),
    ],
)
def test_bad_proposals_are_judged_with_a_reason(changes: dict[str, Any], verdict: str, message: str) -> None:
    run = a_run(answering(changes)).to_end()
    first = llm_proposals(run)[0]
    assert isinstance(first, Judge)
    assert first.verdict == verdict
    assert message in first.message
    assert run.finish is not None
    assert run.finish.reason == "Converged"


def test_a_schedule_is_completed_by_the_fields_that_follow_it() -> None:
    run = a_run(answering({"pp": 2, "mbs": 1, "schedule": "zero-bubble-v"})).to_end()
    first = llm_proposals(run)[0]
    assert first.config is not None
    assert first.config.virtual_pipeline_parallel_size == 2
    assert not first.config.overlap_grad_reduce


def test_no_share_means_no_question() -> None:
    settings = ExploreSettings(proposals_per_round=2, patience=2, llm_share_percent=0)
    assert not a_run(answering({"tp": 2}), explore=settings).to_end().state.asked


def test_a_silent_llm_is_replaced_by_the_surrogate_and_left_alone_for_a_while() -> None:
    explore = ExploreSettings(proposals_per_round=1, patience=8, llm_share_percent=100)
    run = a_run(silent, explore=explore, budget=Budget(max_trials=20)).to_end()
    asked = sorted(run.state.asked)
    assert asked[:2] == [1, 2]
    assert all(later - earlier > 3 for earlier, later in pairwise(asked[1:]))
    assert any(item.origin.proposed_by == "surrogate" for item in run.state.proposals)
    assert run.finish is not None
    assert run.finish.reason == "Converged"


def asked_run(**changes: object) -> Run:
    """A run that has just asked its first question."""
    run = a_run(answering({"tp": 2}), **changes)
    while run.asked is None:
        assert run.step()
    return run


def decide_and_record(run: Run) -> tuple[Decision, ...]:
    decisions = decide(run.snapshot())
    if decisions:
        run.add(Round(elapsed_seconds=run.elapsed_seconds, decisions=decisions, at=AT))
    return decisions


def test_while_an_answer_is_awaited_the_surrogate_goes_on_with_its_own_share() -> None:
    run = asked_run(parallel_trials=3)
    meanwhile = decide_and_record(run)
    assert [item.origin.proposed_by for item in meanwhile if isinstance(item, StartTrial)] == ["surrogate"] * 2
    assert {item.origin.round for item in meanwhile if isinstance(item, StartTrial)} == {2}


def test_the_rounds_of_the_llm_wait_for_its_answer() -> None:
    run = asked_run(parallel_trials=3)
    decide_and_record(run)
    assert decide(run.snapshot()) == ()
    alone = asked_run(explore=ExploreSettings(proposals_per_round=2, patience=3, llm_share_percent=100))
    assert decide(alone.snapshot()) == ()


def test_the_next_question_is_asked_while_trials_run() -> None:
    run = a_run(
        answering({"mbs": 8, "recompute": "full"}, {"mbs": 4, "recompute": "full"}),
        explore=ExploreSettings(proposals_per_round=2, patience=3, llm_share_percent=100),
        parallel_trials=2,
        budget=Budget(max_trials=20),
    )
    busy = []
    while run.step():
        if run.asked is not None:
            busy.append(len(run.state.running))
    assert busy[0] == 0
    assert max(busy) == 2


def test_changes_are_made_to_the_incumbent_that_the_llm_was_shown() -> None:
    run = asked_run(parallel_trials=3)
    shown = run.state.asked[1].ask.incumbent
    assert shown is not None
    decide_and_record(run)
    better = {name: 0.5 for name in run.state.trials}
    run.world.profile_factor = lambda config: better.get(config.digest(), 0.5)
    run.asked = None
    for trial in list(run.state.running):
        run.add(run.world.ends(trial.start))
    run.add(answering({"pp": 2})(run.state.asked[1].ask))
    assert run.step()
    summary = summarise(run.world.problem, run.world.settings, run.space, run.state)
    assert summary.best_projected is not None
    assert summary.best_projected.configuration != shown
    assert llm_proposals(run)[0].config == shown.model_copy(update={"pipeline_parallel_size": 2})


def test_an_answer_that_comes_after_exploring_changes_nothing() -> None:
    run = asked_run(budget=Budget(max_trials=20, max_duration_seconds=600))
    run.elapsed_seconds = 500
    while run.state.phase == "explore":
        assert decide_and_record(run)
    assert run.state.phase == "validate"
    before = decide(run.snapshot())
    run.add(answering({"tp": 2})(run.state.asked[1].ask))
    assert decide(run.snapshot()) == before
    assert not llm_proposals(run)


def test_a_proposal_that_cannot_win_is_pruned_with_the_figures() -> None:
    run = a_run(answering({"tp": 2, "recompute": "full"})).to_end()
    first = llm_proposals(run)[0]
    assert isinstance(first, Judge)
    assert (first.verdict, "below the best known" in first.message) == ("pruned", True)


def test_calls_are_a_limit_and_lost_ones_stay_spent() -> None:
    def lost(ask: AskAdvisor) -> Advice:
        return Advice(round=ask.round, outcome="lost", at=AT)

    run = a_run(lost, budget=Budget(max_trials=20, max_llm_calls=2)).to_end()
    assert len(run.state.asked) == 1
    assert run.state.spent.llm_calls == 2
    assert run.state.spent.llm_tokens == run.state.asked[1].ask.reserved_tokens


@pytest.mark.parametrize(
    "budget",
    [Budget(max_llm_tokens=1000), Budget(max_llm_cost_usd=0.0001), Budget(max_llm_calls=0)],
    ids=["tokens", "cost", "calls"],
)
def test_a_budget_that_covers_no_question_asks_none(budget: Budget) -> None:
    run = a_run(answering({"tp": 2}), budget=budget).to_end()
    assert not run.state.asked
    assert run.finish is not None


def test_an_answered_question_costs_what_it_used() -> None:
    run = a_run(answering({"tp": 2})).to_end()
    spent, asked = run.state.spent, len(run.state.asked)
    assert spent.llm_calls == asked
    assert spent.llm_tokens == 1200 * asked
    assert spent.llm_cost_usd == pytest.approx(0.01 * asked)


def test_the_surrogate_strategy_never_asks() -> None:
    explore = ExploreSettings(strategy="Surrogate", proposals_per_round=2, patience=2)
    assert not a_run(answering({"tp": 2}), explore=explore).to_end().state.asked


def test_proposals_start_from_the_incumbent() -> None:
    run = a_run(answering({"pp": 2}))
    while not llm_proposals(run):
        assert run.step()
    summary = summarise(run.world.problem, run.world.settings, run.space, run.state)
    assert summary.best_projected is not None
    incumbent = summary.best_projected.configuration
    assert incumbent != TrainingConfig()
    assert llm_proposals(run)[0].config == incumbent.model_copy(update={"pipeline_parallel_size": 2})
