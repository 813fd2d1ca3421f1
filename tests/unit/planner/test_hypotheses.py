"""Hypotheses of the LLM: each is confirmed or refuted by the configurations that test it, and says so."""

from typing import Any

import pytest

from tests.support.builders import a_problem, an_llm, settings_of, small_space
from tests.support.planning import Factor, Run, World, no_effect
from tests.support.records import an_advice
from tunewright.domain.training_config import TrainingConfig
from tunewright.planner.briefing import briefing
from tunewright.planner.decisions import AskAdvisor
from tunewright.planner.evaluation import evaluate
from tunewright.planner.hypotheses import TrackedHypothesis, tracked_hypotheses
from tunewright.planner.records import Advice, Hypothesis, ProposedConfig
from tunewright.planner.settings import Budget, ExploreSettings
from tunewright.planner.summary import summarise

FULL = {"mbs": 8, "recompute": "full"}


def run_with(*proposals: tuple[dict[str, Any], int], factor: Factor = no_effect, hypotheses: int = 1) -> Run:
    """A run whose LLM states hypotheses, 1 and on, and proposes (changes, hypothesis), once."""
    stated = tuple(
        Hypothesis(axes=("microBatchSize",), mechanism=f"mechanism {number}", expected_gain_percent=5)
        for number in range(1, hypotheses + 1)
    )
    configs = tuple(ProposedConfig(changes=changes, reason="r", hypothesis=place) for changes, place in proposals)

    def advises(ask: AskAdvisor) -> Advice:
        return an_advice(ask.round, hypotheses=stated, proposals=configs)

    problem = a_problem()
    settings = settings_of(
        problem,
        llm=an_llm(),
        sweep_axes=("micro_batch_size",),
        explore=ExploreSettings(proposals_per_round=2, patience=2),
        budget=Budget(max_trials=12),
    )
    world = World(problem, settings, profile_factor=factor, measure_factor=factor, advises=advises)
    return Run.of(world, small_space())


def first_of(run: Run) -> TrackedHypothesis:
    return tracked_of(run)[0]


def tracked_of(run: Run) -> tuple[TrackedHypothesis, ...]:
    evaluation = evaluate(run.world.problem, run.world.settings, run.space, run.state)
    return tracked_hypotheses(run.state, evaluation)


def until_judged(run: Run) -> Run:
    while not tracked_of(run) or first_of(run).status == "open":
        assert run.step()
    return run


def full_is_fast(config: TrainingConfig) -> float:
    return 0.5 if config.recompute_granularity == "full" else 1.0


def test_a_gain_beyond_noise_confirms() -> None:
    found = first_of(until_judged(run_with((FULL, 1), factor=full_is_fast)))
    assert (found.status, found.kind, found.round) == ("confirmed", "projected", 1)
    assert found.gain_percent is not None
    assert found.gain_percent > 20
    assert "beyond the noise of 1.4%" in found.reason
    assert len(found.trials) == 1


def test_no_gain_refutes() -> None:
    found = first_of(until_judged(run_with((FULL, 1))))
    assert found.status == "refuted"
    assert found.gain_percent is not None
    assert found.gain_percent < 0


def test_a_configuration_that_was_known_already_counts_as_its_test() -> None:
    found = first_of(until_judged(run_with(({}, 1))))
    assert (found.status, found.gain_percent) == ("refuted", 0.0)


@pytest.mark.parametrize(
    ("proposals", "reason"),
    [([({"tp": 3}, 1)], "illegal"), ([({"warp": 9}, 1)], "unreadable"), ([(FULL, 0)], "no configuration tests it")],
)
def test_without_a_figure_it_stays_untested(proposals: list[tuple[dict[str, Any], int]], reason: str) -> None:
    found = first_of(until_judged(run_with(*proposals)))
    assert (found.status, found.reason, found.gain_percent) == ("untested", reason, None)


def test_it_is_open_while_its_trial_runs() -> None:
    run = run_with((FULL, 1))
    while not tracked_of(run):
        assert run.step()
    assert first_of(run).status == "open"
    assert "not known yet" in first_of(run).reason


def test_each_hypothesis_has_its_own_configurations() -> None:
    run = until_judged(run_with((FULL, 2), ({"tp": 3}, 1), factor=full_is_fast, hypotheses=3)).to_end()
    assert [item.status for item in tracked_of(run)[:3]] == ["untested", "confirmed", "untested"]
    assert [item.mechanism for item in tracked_of(run)[:3]] == ["mechanism 1", "mechanism 2", "mechanism 3"]


def test_measurements_of_both_sides_count_before_projections() -> None:
    run = run_with((FULL, 1), factor=full_is_fast).to_end()
    measured = {trial.config for trial in run.state.measurements}
    incumbent = run.state.asked[1].ask.incumbent
    if incumbent in measured:
        assert first_of(run).kind == "measured"
    else:
        assert first_of(run).kind == "projected"


def test_the_summary_and_the_next_briefing_tell_what_became_of_it() -> None:
    run = until_judged(run_with((FULL, 1)))
    summary = summarise(run.world.problem, run.world.settings, run.space, run.state)
    assert summary.to_json()["hypotheses"][0]["status"] == "refuted"
    (told,) = briefing(run.snapshot())["hypotheses"]
    assert (told["mechanism"], told["status"]) == ("mechanism 1", "refuted")
