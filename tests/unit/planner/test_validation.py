"""Which configurations run as whole jobs, in which order, and what is made of their results."""

import statistics
from collections import Counter

import pytest

from tests.support.planning import Run, a_run
from tunewright.domain.training_config import TrainingConfig
from tunewright.planner.decisions import StartTrial
from tunewright.planner.evaluation import are_alike, evaluate
from tunewright.planner.replay import replay
from tunewright.planner.settings import ValidationSettings
from tunewright.planner.trial import Trial
from tunewright.trial_protocol.report import FailureClass


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
    assert third.origin.reason.startswith("number 2")


def test_configurations_are_alike_where_only_details_differ_and_nothing_shows() -> None:
    one = TrainingConfig(pipeline_parallel_size=2)
    detail = one.model_copy(update={"overlap_grad_reduce": False, "overlap_param_gather": False})
    assert are_alike((one, 100.0), (detail, 100.5))
    assert not are_alike((one, 100.0), (detail, 102.0))
    assert not are_alike((one, 100.0), (one.model_copy(update={"micro_batch_size": 16}), 100.0))


def test_what_one_measurement_lost_its_relatives_are_expected_to_lose_too() -> None:
    """Every pipeline of two stages disappoints by half: after the first of them, others are measured."""
    validation = ValidationSettings(nodes=2, top_k=3, repeats=1, include_baseline=False)
    calm = a_run(validation=validation).to_end()
    favourite = calm.state.measurements[0].config

    def disappoints(config: TrainingConfig) -> float:
        return 2.0 if config.micro_batch_size == favourite.micro_batch_size else 1.0

    run = a_run(validation=validation, measure_factor=disappoints).to_end()
    first, second, *_ = (trial.config for trial in run.state.measurements)
    assert first == favourite
    assert second.micro_batch_size != favourite.micro_batch_size


def test_measured_configurations_are_projected_first_so_that_bias_is_known() -> None:
    run = a_run().to_end()
    found = evaluate(run.world.problem, run.world.settings, run.space, run.state)
    for trial in run.state.measurements:
        candidate = found.by_config[trial.config]
        assert candidate.projected is not None
        assert candidate.bias is not None
    assert replay(run.records) is None


def test_expectations_after_measurements_are_on_record() -> None:
    reasons = [trial.origin.reason for trial in a_run().to_end().state.measurements]
    assert reasons[0] == "the baseline, measured like the others"
    assert all("expected" in reason and "projected" in reason for reason in reasons[1:-1])
    assert reasons[-1] == "the fastest, measured again for its spread"


def test_without_validation_the_run_ends_with_projections() -> None:
    run = a_run(validation=ValidationSettings(nodes=2, top_k=0, include_baseline=False)).to_end()
    assert run.finish is not None
    assert run.finish.reason == "Converged"
    assert not run.state.measurements


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


EARLY = ValidationSettings(nodes=2, top_k=3, repeats=2, early_stop=True)


def starts_of(run: Run) -> list[StartTrial]:
    return [trial.start for trial in run.state.measurements]


def step_seconds_of(trial: Trial) -> float:
    assert trial.report is not None and trial.report.measured is not None
    return statistics.median(trial.report.measured.step_seconds)


def all_but_the_baseline_lose(config: TrainingConfig) -> float:
    return 1.0 if config == TrainingConfig() else 1e3


def test_a_job_is_told_the_fastest_step_so_far_and_a_margin() -> None:
    run = a_run(validation=EARLY).to_end()
    baseline, *later = run.state.measurements
    assert (baseline.config, baseline.start.cutoff_step_seconds) == (TrainingConfig(), None)
    fastest = step_seconds_of(baseline)
    for trial in later:
        if trial.start.repeat > 1:
            assert trial.start.cutoff_step_seconds is None, "a repeat is there for the spread"
            continue
        assert trial.start.cutoff_step_seconds == pytest.approx(1.1 * fastest, rel=1e-5)
        fastest = min(fastest, step_seconds_of(trial))
    assert replay(run.records) is None


def test_a_job_that_stopped_early_is_a_measurement_with_a_wider_interval_and_no_failure() -> None:
    early = a_run(validation=EARLY, measure_factor=all_but_the_baseline_lose).to_end()
    whole = EARLY.model_copy(update={"early_stop": False})
    full = a_run(validation=whole, measure_factor=all_but_the_baseline_lose).to_end()
    assert {start.cutoff_step_seconds for start in starts_of(full)} == {None}
    assert [start.config for start in starts_of(early)] == [start.config for start in starts_of(full)]
    assert not any(trial.failure for trial in early.state.measurements)
    for run in (early, full):
        assert run.finish is not None
        assert run.finish.reason == "Converged"
        assert replay(run.records) is None
    found, wanted = (evaluate(run.world.problem, run.world.settings, run.space, run.state) for run in (early, full))
    losing = [config for start in starts_of(early) if (config := start.config) != TrainingConfig()]
    assert losing
    for config in losing:
        stopped, ran = found.by_config[config].measurement, wanted.by_config[config].measurement
        assert stopped is not None and ran is not None
        assert stopped.tokens_per_second_per_gpu == pytest.approx(ran.tokens_per_second_per_gpu, rel=0.02)
        assert stopped.interval.low < ran.interval.low
        assert stopped.interval.high > ran.interval.high


def test_the_settings_of_a_run_from_before_early_stops_have_none() -> None:
    assert not ValidationSettings.parse({"nodes": 2}).early_stop
