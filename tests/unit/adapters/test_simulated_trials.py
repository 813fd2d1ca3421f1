"""The simulated cluster stops a measurement that loses as the trial program does, and people are told."""

import pytest

from tests.support.records import AT
from tests.unit.trial.requests import make_request
from tunewright.adapters.trials.simulated import HiddenTruth, SimulatedTrials
from tunewright.cli.narration import lines_of
from tunewright.planner.records import TrialFinished
from tunewright.ports import TrialObservation
from tunewright.trial_protocol.early_stop import LEAST_STEPS


async def measured(cutoff_step_seconds: float | None) -> TrialObservation:
    trials = SimulatedTrials(HiddenTruth())
    steps = {"warmup_steps": 2, "steps": 20, "cutoff_step_seconds": cutoff_step_seconds}
    await trials.start(make_request("measure", request=steps))
    (seen,) = await trials.observe()
    return seen


@pytest.mark.parametrize(("cutoff", "steps"), [(None, 20), (1e3, 20), (1e-9, LEAST_STEPS)])
async def test_only_steps_beyond_the_cutoff_end_a_measurement(cutoff: float | None, steps: int) -> None:
    seen = await measured(cutoff)
    assert seen.report is not None and seen.report.measured is not None
    found = seen.report.measured
    assert (seen.failure, len(found.step_seconds)) == (None, steps)
    assert found.stopped_early == (None if steps == 20 else steps)
    (line,) = lines_of(TrialFinished(trial=seen.trial, attempt=1, report=seen.report, at=AT))
    assert ("stopped early after 4 steps" in line) is (steps == LEAST_STEPS)


async def test_a_measurement_that_stops_early_costs_less_and_says_the_same() -> None:
    whole, early = await measured(None), await measured(1e-9)
    assert early.gpu_seconds < whole.gpu_seconds
    reports = [one.report.measured for one in (whole, early) if one.report is not None]
    speeds = [one.tokens_per_second_per_gpu for one in reports if one is not None]
    assert speeds[1] == pytest.approx(speeds[0], rel=0.02)
