"""Trials that an earlier ledger answers: what it knows, once, and nothing else."""

from functools import cache

from tests.support.builders import a_problem, settings_of, small_space
from tests.support.planning import Run, World
from tests.support.records import a_header
from tunewright.adapters.trials.recorded import UNANSWERED, RecordedTrials
from tunewright.adapters.trials.simulated import HiddenTruth, SimulatedTrials
from tunewright.domain.training_config import TrainingConfig
from tunewright.engine.requests import trial_request
from tunewright.planner.decisions import Origin, StartTrial
from tunewright.planner.records import Record, TrialFinished
from tunewright.planner.settings import Budget, PlannerSettings, ValidationSettings
from tunewright.planner.trial import Trial
from tunewright.ports import TrialObservation
from tunewright.trial_protocol.identity import TrialKind
from tunewright.trial_protocol.report import FailureClass
from tunewright.trial_protocol.request import TrialRequest

RERUN = a_header(run_uid="00000000-0000-4000-8000-000000000002", problem=a_problem(), settings=settings_of(a_problem()))


def settings() -> PlannerSettings:
    validation = ValidationSettings(nodes=2, top_k=2, repeats=2)
    return settings_of(a_problem(), budget=Budget(max_trials=6), validation=validation)


@cache
def searched(fails_second: FailureClass | None = None) -> Run:
    def fails(start: StartTrial) -> FailureClass | None:
        return fails_second if start.trial == "t0002" else None

    return Run.of(World(a_problem(), settings(), fails=fails), small_space()).to_end()


def a_request(config: TrainingConfig, kind: TrialKind = "profile", trial: str = "t0044") -> TrialRequest:
    origin = Origin(phase="explore", proposed_by="llm")
    start = StartTrial(trial=trial, kind=kind, config=config, profile_key="x", origin=origin, reserved_gpu_seconds=1.0)
    return trial_request(RERUN, settings(), start, 600.0)


async def answer(trials: RecordedTrials, request: TrialRequest) -> TrialObservation:
    await trials.start(request)
    key = (request.identity.trial, request.identity.attempt)
    return next(seen for seen in await trials.observe() if (seen.trial, seen.attempt) == key)


def profiled(run: Run) -> Trial:
    return run.state.profiles[0]


async def test_a_profile_answers_for_its_configuration_under_the_new_identity() -> None:
    run = searched()
    request = a_request(profiled(run).config)
    seen = await answer(RecordedTrials(run.records, (), None), request)
    assert seen.report is not None and profiled(run).report is not None
    assert seen.report.identity == request.identity
    assert seen.report.profile == profiled(run).report.profile  # type: ignore[union-attr]
    assert seen.recorded_from == profiled(run).name
    assert seen.gpu_seconds == profiled(run).gpu_seconds


async def test_a_profile_answers_for_another_configuration_with_its_key() -> None:
    run = searched()
    other = profiled(run).config.model_copy(update={"pipeline_parallel_size": 2})
    seen = await answer(RecordedTrials(run.records, (), None), a_request(other))
    assert seen.recorded_from == profiled(run).name


async def test_what_nothing_answers_is_cancelled_and_says_so() -> None:
    other = profiled(searched()).config.model_copy(update={"tensor_parallel_size": 4})
    seen = await answer(RecordedTrials(searched().records, (), None), a_request(other))
    assert (seen.failure, seen.report, seen.recorded_from) == ("Cancelled", None, "")
    assert seen.message.startswith(UNANSWERED)


async def test_what_nothing_answers_is_tried_where_trials_run() -> None:
    other = profiled(searched()).config.model_copy(update={"tensor_parallel_size": 4})
    trials = RecordedTrials(searched().records, (), SimulatedTrials(HiddenTruth()))
    seen = await answer(trials, a_request(other))
    assert seen.report is not None and seen.report.simulated
    assert seen.recorded_from == ""


async def test_each_measurement_answers_once_also_after_a_restart() -> None:
    run = searched()
    config = run.state.measurements[-1].config
    names = [trial.name for trial in run.state.measurements if trial.config == config]
    trials = RecordedTrials(run.records, (), None)
    found = [await answer(trials, a_request(config, "measure", f"t005{number}")) for number in range(3)]
    assert [seen.recorded_from for seen in found] == [*names, ""]
    earlier: list[Record] = [TrialFinished(trial="t0050", attempt=1, recorded_from=names[0], at="")]
    again = RecordedTrials(run.records, earlier, None)
    assert (await answer(again, a_request(config, "measure", "t0051"))).recorded_from == names[1]


async def test_a_failure_of_the_configuration_is_an_answer_and_a_fault_of_the_place_is_none() -> None:
    for failure, recorded_from in (("DeviceOutOfMemory", "t0002"), ("ImagePull", "")):
        run = searched(failure)
        seen = await answer(RecordedTrials(run.records, (), None), a_request(run.state.trials["t0002"].config))
        assert seen.recorded_from == recorded_from
        assert seen.failure == (failure if recorded_from else "Cancelled")


async def test_an_attempt_that_is_adopted_gets_the_same_answer() -> None:
    run = searched()
    trials, request = RecordedTrials(run.records, (), None), a_request(profiled(run).config)
    await trials.adopt(request)
    assert [seen.recorded_from for seen in await trials.observe()] == [profiled(run).name]
