"""What a run's handle counts is what the run's ledger says."""

import asyncio
import logging
from typing import Any

import pytest

from tests.support.records import a_header
from tests.unit.controller.test_metrics import series
from tests.unit.engine.test_crashes import StandingClock, space
from tests.unit.engine.test_ending import HangingTrials
from tunewright.adapters.ledger.memory import MemoryLedger
from tunewright.adapters.trials.simulated import HiddenTruth, SimulatedTrials
from tunewright.controller.counted_run import CountedRun
from tunewright.controller.metrics import OperatorMetrics
from tunewright.engine.step import step
from tunewright.planner.records import Advice, Header, Round
from tunewright.planner.settings import ExploreSettings, LLMSettings
from tunewright.ports import AdviceRequest


async def a_counted_run(header: Header | None = None, **changes: Any) -> CountedRun:
    run = CountedRun(
        MemoryLedger(), SimulatedTrials(HiddenTruth()), StandingClock(), built_space=space(), metrics=OperatorMetrics()
    )
    for name, value in changes.items():
        setattr(run, name, value)
    await run.open(header or a_header(simulated=True))
    return run


def total(run: CountedRun, name: str) -> float:
    return sum(value for key, value in series(run.metrics).items() if key.startswith(f"{name}{{"))


async def test_a_finished_run_is_counted_as_its_ledger_tells_it() -> None:
    run = await a_counted_run()
    while run.state.finish is None:
        await step(run)
    rounds = [record for record in await run.ledger.read() if isinstance(record, Round)]
    profiles = "tunewright_trial_attempts_total{kind=profile,result=succeeded,class=}"
    assert series(run.metrics)[profiles] == len(run.state.profiles) > 0
    assert total(run, "tunewright_trial_attempts_total") == len(run.state.finished_attempts)
    assert total(run, "tunewright_gpu_seconds_total") == pytest.approx(run.state.spent.gpu_seconds)
    assert total(run, "tunewright_decision_seconds_count") == len(rounds)


async def test_reading_a_ledger_again_counts_nothing_again() -> None:
    run = await a_counted_run()
    while run.state.finish is None:
        await step(run)
    again = await a_counted_run(ledger=run.ledger)
    assert again.state.finish is not None
    assert total(again, "tunewright_trial_attempts_total") == 0


async def test_starts_and_ends_of_attempts_are_logged_with_their_trial(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    run = await a_counted_run(trials=HangingTrials(knows=False))
    for _ in range(4):
        await step(run)
    told = [(record.getMessage(), getattr(record, "trial", "")) for record in caplog.records]
    assert told[:2] == [
        ("quickstart: t0001, attempt 1: is started", "t0001"),
        ("quickstart: t0001, attempt 1: place, NodeLost", "t0001"),
    ]


class Shouting:
    """An advisor that breaks its word and raises, on two lines."""

    async def ask(self, request: AdviceRequest) -> Advice:
        raise RuntimeError("first line\nsecond line")


async def test_rounds_of_the_llm_that_fail_are_counted_and_logged_on_one_line_each(
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings = a_header().settings.model_copy(
        update={"llm": LLMSettings(model="openai/any"), "explore": ExploreSettings(llm_share_percent=100)}
    )
    run = await a_counted_run(a_header(simulated=True, settings=settings), advisor=Shouting())
    while run.state.finish is None:
        await step(run)
        await asyncio.sleep(0)  # lets the advisor answer
    failed = series(run.metrics)["tunewright_llm_rounds_total{outcome=failed,reason=Unexpected}"]
    assert failed == len(run.state.asked) > 0
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert warnings[0] == "quickstart: round 1 of the LLM failed: RuntimeError: first line\\nsecond line"
