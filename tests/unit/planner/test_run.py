"""Whole runs in memory: what each phase decides, and how a run ends."""

import pytest

from tests.support.builders import a_cluster, a_problem, settings_of
from tests.support.planning import Run, World, a_run, decisions_of, hidden_effect, phases_of
from tunewright.domain.training_config import TrainingConfig
from tunewright.planner.decide import decide
from tunewright.planner.decisions import Judge, StartTrial
from tunewright.planner.records import SettingsChanged
from tunewright.planner.settings import Budget, ExploreSettings, PlannerSettings
from tunewright.planner.summary import summarise
from tunewright.trial_protocol.report import FailureClass

INTERRUPTED: FailureClass = "Interrupted"


def settings_in(run: Run) -> PlannerSettings:
    return run.world.settings


def test_a_run_goes_through_its_phases_to_a_measured_result() -> None:
    run = a_run().to_end()
    assert run.finish is not None
    assert run.finish.reason == "Converged"
    assert phases_of(run) == ["seed", "explore", "validate"]
    assert [trial.origin.proposed_by for trial in run.state.measurements] == ["validation"] * 4


def test_the_baseline_is_profiled_first_and_measured_first() -> None:
    run = a_run().to_end()
    assert run.state.trials["t0001"].config == settings_in(run).baseline
    assert run.state.trials["t0001"].origin.proposed_by == "baseline"
    assert run.state.measurements[0].config == settings_in(run).baseline


def test_trials_are_numbered_in_order_without_gaps() -> None:
    run = a_run(parallel_trials=3).to_end()
    assert list(run.state.trials) == [f"t{number:04d}" for number in range(1, len(run.state.trials) + 1)]


def test_nothing_is_decided_after_the_end() -> None:
    run = a_run().to_end()
    assert decide(run.snapshot()) == ()


def test_every_decision_says_why() -> None:
    for decision in decisions_of(a_run().to_end()):
        if isinstance(decision, StartTrial | Judge):
            assert decision.origin.reason
        if isinstance(decision, Judge):
            assert decision.message


def test_no_profile_is_taken_twice() -> None:
    run = a_run(budget=Budget(max_trials=30)).to_end()
    keys = [trial.start.profile_key for trial in run.state.profiles]
    assert len(keys) == len(set(keys))


def test_a_combination_that_no_sweep_tries_is_found_and_measured() -> None:
    """Selective recomputation computes 30 % faster than the model says, so it wins together with a large batch."""

    def factor(config: TrainingConfig) -> float:
        return 0.7 if config.recompute_granularity == "selective" else 1.0

    run = a_run(profile_factor=factor, measure_factor=factor, budget=Budget(max_trials=20)).to_end()
    best = run.state.measurements[1].config
    assert (best.recompute_granularity, best.micro_batch_size) == ("selective", 8)
    summary = summarise(run.world.problem, run.world.settings, run.space, run.state)
    assert summary.winner == best


def test_the_sweep_tries_one_axis_at_a_time() -> None:
    run = a_run().to_end()
    baseline = settings_in(run).baseline
    swept = [trial for trial in run.state.profiles if trial.origin.proposed_by == "sweep"]
    assert swept
    for trial in swept:
        assert getattr(trial.config, trial.origin.axis) != getattr(baseline, trial.origin.axis)


def test_swept_axes_can_be_named() -> None:
    run = a_run(sweep_axes=("micro_batch_size",)).to_end()
    axes = {item.origin.axis for item in run.state.proposals if item.origin.proposed_by == "sweep"}
    assert axes == {"micro_batch_size"}


def test_schedules_are_projected_from_the_profile_of_the_baseline() -> None:
    run = a_run(baseline=TrainingConfig(pipeline_parallel_size=2), sweep_axes=("pipeline_schedule",)).to_end()
    judged = [item for item in run.state.judged if item.origin.axis == "pipeline_schedule"]
    assert {item.verdict for item in judged} == {"reused"}
    assert {item.reused_trial for item in judged} == {"t0001"}


def test_values_that_do_not_fit_are_filtered_with_an_itemised_message() -> None:
    problem = a_problem(cluster=a_cluster(hbm_capacity_bytes=6 * 2**30))
    run = Run.of(World(problem, settings_of(problem))).to_end()
    filtered = [item for item in run.state.judged if item.verdict == "filtered"]
    assert filtered
    assert all("does not fit" in item.message and "GiB" in item.message for item in filtered)
    tried = [run.space.row_of(trial.config) for trial in run.state.trials.values()]
    assert all(row is not None and run.space.fits[row] for row in tried)


def test_values_that_cannot_win_are_pruned_with_the_figures() -> None:
    run = a_run().to_end()
    pruned = [item for item in run.state.judged if item.verdict == "pruned"]
    assert pruned
    assert all("cannot win" in item.message for item in pruned)


def test_a_value_that_no_repair_makes_legal_is_judged_illegal() -> None:
    run = a_run(search_space={"tensor_parallel_size": (1, 3)}).to_end()
    illegal = [item for item in run.state.judged if item.verdict == "illegal"]
    assert [item.config.tensor_parallel_size for item in illegal if item.config] == [3]
    assert "does not divide" in illegal[0].message


def test_the_trial_budget_is_a_limit() -> None:
    run = a_run(budget=Budget(max_trials=4)).to_end()
    assert len(run.state.profiles) == 4
    assert run.finish is not None
    assert run.finish.reason == "BudgetExhausted"


def test_one_trial_is_enough_for_a_result() -> None:
    run = a_run(budget=Budget(max_trials=1)).to_end()
    assert len(run.state.profiles) == 1
    assert run.state.measurements


def test_gpu_hours_are_reserved_and_kept_for_validation() -> None:
    limit = 1.5
    run = a_run(budget=Budget(max_trials=30, max_gpu_hours=limit)).to_end()
    assert run.state.spent.gpu_seconds <= limit * 3600
    assert run.state.measurements
    assert len(run.state.profiles) < 30


def test_gpu_hours_for_nothing_end_the_run_at_once() -> None:
    run = a_run(budget=Budget(max_gpu_hours=0.01)).to_end()
    assert run.finish is not None
    assert run.finish.reason == "BudgetExhausted"
    assert not run.state.trials


def test_the_duration_leaves_time_for_validation() -> None:
    run = a_run(budget=Budget(max_trials=30, max_duration_seconds=900)).to_end()
    assert run.finish is not None
    assert run.finish.reason == "Converged"
    assert run.state.measurements


def test_a_duration_that_is_used_up_stops_what_runs() -> None:
    run = a_run(budget=Budget(max_duration_seconds=600))
    run.step()
    run.elapsed_seconds = 700
    assert [decision.type for decision in decide(run.snapshot())] == ["stop-trial"]
    assert run.to_end().finish is not None
    assert run.finish is not None
    assert run.finish.reason == "BudgetExhausted"


def test_stopping_ends_trials_and_then_the_run() -> None:
    run = a_run(parallel_trials=2)
    run.step()
    stopped = settings_in(run).model_copy(update={"stop": True})
    run.add(SettingsChanged(settings=stopped, at="2026-11-30T05:00:00Z"))
    assert [decision.type for decision in decide(run.snapshot())] == ["stop-trial"]
    run.step()
    assert decide(run.snapshot()) == (), "a trial is asked to stop once"
    run.to_end()
    assert run.finish is not None
    assert run.finish.reason == "Stopped"
    assert run.state.running == []


def test_parallel_trials_fill_the_slots_and_no_more() -> None:
    run = a_run(parallel_trials=3)
    most = 0
    while run.step():
        most = max(most, len(run.state.running))
        assert len(run.state.running) <= 3
    assert most == 3


@pytest.mark.parametrize(
    ("baseline", "message"),
    [(TrainingConfig(tensor_parallel_size=3), "not legal"), (TrainingConfig(micro_batch_size=8), "does not fit")],
)
def test_an_impossible_baseline_fails_the_run_before_any_trial(baseline: TrainingConfig, message: str) -> None:
    problem = a_problem(cluster=a_cluster(hbm_capacity_bytes=6 * 2**30))
    run = Run.of(World(problem, settings_of(problem, baseline=baseline))).to_end()
    assert run.finish is not None
    assert run.finish.reason == "Failed"
    assert message in run.finish.message
    assert not run.state.trials


@pytest.mark.parametrize("patience", [1, 3])
def test_patience_counts_rounds_without_improvement(patience: int) -> None:
    # A world full of large surprises: there is always something that looks promising and disappoints.
    fields = ("tensor_parallel_size", "micro_batch_size", "recompute_granularity")
    run = a_run(
        explore=ExploreSettings(proposals_per_round=1, patience=patience),
        budget=Budget(max_trials=40),
        profile_factor=hidden_effect(4, 0.5, *fields),
    ).to_end()
    assert run.state.phase_reason == f"{patience} rounds without improvement"
    assert run.state.explore_round >= patience


def test_two_runs_of_one_world_are_identical() -> None:
    first, second = (a_run(profile_factor=hidden_effect(5, 0.1, "tensor_parallel_size")).to_end() for _ in range(2))
    assert first.records == second.records
