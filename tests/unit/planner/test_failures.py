"""What failed and interrupted trials do to a run: which are tried again, and which end it."""

import pytest

from tests.support.planning import a_run, failing, phases_of
from tunewright.domain.training_config import TrainingConfig
from tunewright.planner.replay import replay
from tunewright.planner.settings import Budget, ValidationSettings
from tunewright.trial_protocol.identity import MOST_ATTEMPTS
from tunewright.trial_protocol.report import FailureClass

INTERRUPTED: FailureClass = "Interrupted"


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
