"""Whole runs in memory: what each phase decides, and how a run ends."""

from collections import Counter
from dataclasses import replace

import pytest

from tests.support.builders import a_cluster, a_problem, settings_of, small_space
from tests.support.planning import Run, World, hidden_effect
from tunewright.domain.training_config import TrainingConfig
from tunewright.planner.decide import decide
from tunewright.planner.decisions import EnterPhase, Judge, StartTrial
from tunewright.planner.evaluation import are_alike, evaluate
from tunewright.planner.records import Round, SettingsChanged
from tunewright.planner.replay import replay
from tunewright.planner.settings import Budget, ExploreSettings, PlannerSettings, ValidationSettings
from tunewright.planner.summary import summarise
from tunewright.trial_protocol.identity import MOST_ATTEMPTS
from tunewright.trial_protocol.report import FailureClass

INTERRUPTED: FailureClass = "Interrupted"


def a_run(**changes: object) -> Run:
    """A run of the small problem; settings by name, what belongs to the world under its own names."""
    problem = a_problem()
    worldly = {name: changes.pop(name) for name in ("profile_factor", "measure_factor", "fails") if name in changes}
    world = World(problem, settings_of(problem, **changes), **worldly)  # type: ignore[arg-type]
    reusable = not ({"search_space", "baseline"} & set(changes))
    return Run.of(world, small_space() if reusable else None)


def failing(failure: FailureClass, *trials: str, attempts: int = 99):  # type: ignore[no-untyped-def]  # noqa: ANN201
    def fails(start: StartTrial) -> FailureClass | None:
        hit = not trials or start.trial in trials
        return failure if hit and start.attempt <= attempts else None

    return fails


def decisions_of(run: Run) -> list[object]:
    return [decision for record in run.records if isinstance(record, Round) for decision in record.decisions]


def phases_of(run: Run) -> list[str]:
    return [decision.phase for decision in decisions_of(run) if isinstance(decision, EnterPhase)]


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
    assert len(run.state.profiles) <= 4
    assert run.finish is not None
    assert run.finish.reason == "Converged"


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


def test_measurements_run_alone() -> None:
    run = a_run(parallel_trials=3)
    while run.step():
        running = run.state.running
        assert len(running) == 1 or all(trial.kind == "profile" for trial in running)


@pytest.mark.parametrize("repeats", [1, 2, 3])
def test_the_fastest_is_measured_as_often_as_asked_and_the_others_once(repeats: int) -> None:
    run = a_run(validation=ValidationSettings(nodes=2, top_k=2, repeats=repeats)).to_end()
    best = evaluate(run.world.problem, run.world.settings, run.space, run.state).best_measured
    assert best is not None
    counts = Counter(trial.config for trial in run.state.measurements)
    assert counts.pop(best.config) == repeats
    assert set(counts.values()) == {1}
    assert [trial.start.repeat for trial in run.state.measurements if trial.config == best.config] == [
        *range(1, repeats + 1)
    ]


def test_where_measuring_turns_the_order_around_the_next_best_is_measured_too() -> None:
    validation = ValidationSettings(nodes=2, top_k=1, repeats=1)
    calm = a_run(validation=validation).to_end()
    baseline, favourite = (trial.config for trial in calm.state.measurements)

    def disappoints(config: TrainingConfig) -> float:
        return 5.0 if config == favourite else 1.0

    turned = a_run(validation=validation, measure_factor=disappoints).to_end()
    first, second, third = turned.state.measurements
    assert (first.config, second.config) == (baseline, favourite)
    assert third.origin.reason.startswith("number 2 by projection")


def test_candidates_are_alike_where_only_details_differ_and_nothing_shows() -> None:
    run = a_run().to_end()
    [one, *_] = evaluate(run.world.problem, run.world.settings, run.space, run.state).by_projection
    assert one.projection is not None
    detail = replace(one, config=one.config.model_copy(update={"overlap_grad_reduce": False}))
    assert are_alike(one, detail)
    assert not are_alike(one, replace(one, config=one.config.model_copy(update={"micro_batch_size": 16})))
    speed = one.projection.tokens_per_second_per_gpu
    faster = one.projection.model_copy(update={"tokens_per_second_per_gpu": 1.02 * speed})
    assert not are_alike(one, replace(detail, projection=faster))


def test_without_validation_the_run_ends_with_projections() -> None:
    run = a_run(validation=ValidationSettings(nodes=2, top_k=0, include_baseline=False)).to_end()
    assert run.finish is not None
    assert run.finish.reason == "Converged"
    assert not run.state.measurements


def test_a_lost_node_is_tried_again_and_the_trial_counts_once() -> None:
    run = a_run(fails=failing("NodeLost", "t0002", attempts=1)).to_end()
    trial = run.state.trials["t0002"]
    assert [attempt.number for attempt in trial.attempts] == [1, 2]
    assert trial.report is not None
    assert run.finish is not None
    assert run.finish.reason == "Converged"


def test_interruptions_use_up_no_attempts_and_change_nothing_but_the_time() -> None:
    """Whoever drives the run was ended seven times in the baseline's trial; a node was lost twice in between."""
    lost: dict[int, FailureClass] = {3: "NodeLost", 6: "NodeLost"}
    ends = lost | dict.fromkeys((1, 2, 4, 5, 7, 8, 9), INTERRUPTED)
    undisturbed = a_run().to_end()
    run = a_run(fails=lambda start: ends.get(start.attempt) if start.trial == "t0001" else None).to_end()
    baseline = run.state.trials["t0001"]
    assert [attempt.number for attempt in baseline.attempts] == list(range(1, 11))
    assert baseline.report is not None
    assert phases_of(run) == phases_of(undisturbed)
    assert [trial.config for trial in run.state.trials.values()] == [
        trial.config for trial in undisturbed.state.trials.values()
    ]
    used = baseline.attempts[0].reserved_gpu_seconds / 2
    assert run.state.spent.gpu_seconds == pytest.approx(undisturbed.state.spent.gpu_seconds + 9 * used)
    assert replay(run.records) is None


def test_attempts_are_limited_with_interruptions_between() -> None:
    ends: dict[int, FailureClass] = {1: "NodeLost", 2: "Interrupted", 3: "NodeLost"}
    run = a_run(
        fails=lambda start: ends.get(start.attempt) if start.trial == "t0002" else None, max_attempts=2
    ).to_end()
    assert [attempt.number for attempt in run.state.trials["t0002"].attempts] == [1, 2, 3]
    assert run.state.trials["t0002"].failure == "NodeLost"


def test_what_is_interrupted_without_end_is_given_up_and_is_no_fault_of_the_place() -> None:
    budget = Budget(max_failed_trials=0)
    run = a_run(fails=failing("Interrupted", "t0002"), budget=budget).to_end()
    assert len(run.state.trials["t0002"].attempts) == MOST_ATTEMPTS
    assert run.finish is not None
    assert run.finish.reason == "Converged"


def test_attempts_are_limited() -> None:
    run = a_run(fails=failing("NodeLost", "t0002"), max_attempts=2).to_end()
    assert len(run.state.trials["t0002"].attempts) == 2
    assert run.state.trials["t0002"].failure == "NodeLost"


def test_a_retry_that_the_budget_does_not_cover_is_not_awaited() -> None:
    """The first attempt used half of its reservation, and the rest does not pay for a second one."""
    budget = Budget(max_trials=1, max_gpu_hours=0.1875)
    validation = ValidationSettings(nodes=1, top_k=0, include_baseline=False)
    run = a_run(fails=failing("NodeLost", "t0001"), budget=budget, validation=validation).to_end()
    assert run.finish is not None
    assert run.finish.reason == "Failed"
    assert len(run.state.trials["t0001"].attempts) == 1


def test_out_of_memory_is_never_retried_and_rules_out_what_needs_more() -> None:
    run = a_run(fails=failing("DeviceOutOfMemory", "t0003"), budget=Budget(max_trials=20)).to_end()
    failed = run.state.trials["t0003"]
    assert len(failed.attempts) == 1
    row = run.space.row_of(failed.config)
    assert row is not None
    limit = run.space.allocated_bytes[row]
    later = [trial for trial in run.state.profiles if trial.name > "t0003"]
    assert later
    for trial in later:
        other = run.space.row_of(trial.config)
        assert other is not None
        assert run.space.allocated_bytes[other] < limit


def test_faults_of_the_configuration_do_not_fail_the_run() -> None:
    run = a_run(fails=lambda start: "NaNLoss" if start.kind == "profile" and start.trial > "t0003" else None).to_end()
    assert run.finish is not None
    assert run.finish.reason == "Converged"


def test_too_many_faults_of_the_place_fail_the_run() -> None:
    classes: dict[int, FailureClass] = {0: "HostOOMKilled", 1: "ResultInvalid"}
    run = a_run(
        fails=lambda start: classes[int(start.trial[1:]) % 2] if start.trial > "t0001" else None,
        budget=Budget(max_trials=30, max_failed_trials=2),
    ).to_end()
    assert run.finish is not None
    assert run.finish.reason == "Failed"
    assert "3 trials failed, 2 are allowed" in run.finish.message


def test_the_same_fault_three_times_fails_the_run_with_its_message() -> None:
    run = a_run(fails=failing("ImagePull")).to_end()
    assert run.finish is not None
    assert run.finish.reason == "Failed"
    assert "3 trials in a row ended with ImagePull: scripted ImagePull" in run.finish.message
    assert len(run.state.trials) == 3


def test_a_fault_that_used_up_one_trial_and_meets_the_next_fails_the_run() -> None:
    run = a_run(fails=failing("RcclFailure"), max_attempts=3).to_end()
    assert run.finish is not None
    assert run.finish.reason == "Failed"
    assert "4 attempts in a row ended with RcclFailure: scripted RcclFailure" in run.finish.message
    assert [len(trial.attempts) for trial in run.state.trials.values()] == [3, 1]
    assert replay(run.records) is None


def test_preemption_is_tried_again_whatever_was_preempted_before() -> None:
    run = a_run(fails=failing("Preempted", "t0002", "t0003"), max_attempts=3).to_end()
    assert run.finish is not None
    assert run.finish.reason == "Converged"
    assert [len(run.state.trials[name].attempts) for name in ("t0002", "t0003")] == [3, 3]


def test_first_attempts_that_fail_together_are_tried_again() -> None:
    run = a_run(
        fails=lambda start: "NodeLost" if start.attempt == 1 and start.kind == "profile" else None, parallel_trials=4
    ).to_end()
    assert run.finish is not None
    assert run.finish.reason == "Converged"


def test_a_baseline_that_runs_out_of_memory_leaves_the_rest_of_the_search() -> None:
    run = a_run(baseline=TrainingConfig(micro_batch_size=8), fails=failing("DeviceOutOfMemory", "t0001")).to_end()
    assert run.finish is not None
    assert run.finish.reason == "Converged"
    assert not any(item.origin.proposed_by == "sweep" for item in run.state.proposals)
    assert len(run.state.profiles) > 1


def test_when_nothing_runs_the_run_fails_and_says_so() -> None:
    run = a_run(fails=lambda start: "CrashInTraining").to_end()
    assert run.finish is not None
    assert run.finish.reason == "Failed"
    assert "no trial succeeded" in run.finish.message


def test_failed_validations_make_room_for_the_next_best() -> None:
    best: list[TrainingConfig] = []

    def fails(start: StartTrial) -> FailureClass | None:
        if start.kind == "measure" and start.config != TrainingConfig() and not best:
            best.append(start.config)
        return "CrashInTraining" if start.config in best else None

    run = a_run(fails=fails).to_end()
    succeeded = [trial for trial in run.state.measurements if trial.report]
    assert len({trial.config for trial in succeeded}) == 3
    assert run.finish is not None
    assert run.finish.reason == "Converged"


def test_a_run_without_a_successful_validation_fails() -> None:
    run = a_run(fails=lambda start: "NaNLoss" if start.kind == "measure" else None).to_end()
    assert run.finish is not None
    assert run.finish.reason == "Failed"
    assert "every validation failed" in run.finish.message


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
