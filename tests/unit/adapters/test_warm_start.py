"""Profiles of an earlier ledger answer for nothing; measurements are made anew."""

from tests.support.builders import a_problem, settings_of, small_space
from tests.support.planning import Run, World
from tests.support.records import a_header
from tunewright.adapters.trials.simulated import HiddenTruth, SimulatedTrials
from tunewright.adapters.trials.warm_start import WarmStartTrials
from tunewright.engine.requests import trial_request
from tunewright.planner.decisions import Origin, StartTrial
from tunewright.planner.settings import Budget, ValidationSettings
from tunewright.ports import TrialObservation
from tunewright.trial_protocol.identity import TrialKind

SETTINGS = settings_of(
    a_problem(), budget=Budget(max_trials=4), validation=ValidationSettings(nodes=2, top_k=1, repeats=1)
)
NEW_RUN = a_header(run_uid="00000000-0000-4000-8000-000000000002", problem=a_problem(), settings=SETTINGS)


async def answered(kind: TrialKind) -> TrialObservation:
    run = Run.of(World(a_problem(), SETTINGS), small_space()).to_end()
    earlier = run.state.profiles[0] if kind == "profile" else run.state.measurements[0]
    assert earlier.gpu_seconds > 0
    origin = Origin(phase="explore", proposed_by="surrogate")
    start = StartTrial(
        trial="t0001", kind=kind, config=earlier.config, profile_key="x", origin=origin, reserved_gpu_seconds=1.0
    )
    trials = WarmStartTrials(run.records, SimulatedTrials(HiddenTruth()))
    await trials.start(trial_request(NEW_RUN, SETTINGS, start, 600.0))
    (seen,) = await trials.observe()
    return seen


async def test_a_profile_is_answered_and_costs_nothing() -> None:
    seen = await answered("profile")
    assert seen.recorded_from == "t0001"
    assert seen.report is not None
    assert seen.report.identity.run_uid == NEW_RUN.run_uid
    assert seen.gpu_seconds == 0


async def test_a_measurement_is_made_anew() -> None:
    seen = await answered("measure")
    assert seen.recorded_from == ""
    assert seen.gpu_seconds > 0
