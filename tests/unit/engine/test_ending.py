"""How a run ends while trials are under way."""

from collections.abc import Sequence

import pytest

from tests.support.records import a_header
from tests.unit.engine.test_crashes import StandingClock, space
from tunewright.adapters.ledger.memory import MemoryLedger
from tunewright.engine.run_handle import RunHandle
from tunewright.engine.step import step
from tunewright.errors import LedgerError
from tunewright.planner.records import TrialFinished
from tunewright.ports import TrialObservation
from tunewright.trial_protocol.request import TrialRequest


class HangingTrials:
    """Trials that never end by themselves. `knows` is whether a started one can be seen."""

    def __init__(self, *, knows: bool) -> None:
        self.seen: dict[tuple[str, int], TrialObservation] = {}
        self._knows = knows
        self.started: list[tuple[str, int]] = []

    async def start(self, request: TrialRequest) -> None:
        key = (request.identity.trial, request.identity.attempt)
        self.started.append(key)
        if self._knows:
            self.seen[key] = TrialObservation(*key, "running")

    async def adopt(self, request: TrialRequest) -> None:
        key = (request.identity.trial, request.identity.attempt)
        self.seen[key] = TrialObservation(*key, "finished", failure="NodeLost")

    async def observe(self) -> Sequence[TrialObservation]:
        return list(self.seen.values())

    async def stop(self, trial: str, attempt: int) -> None:
        self.seen[trial, attempt] = TrialObservation(trial, attempt, "finished", failure="Cancelled")


@pytest.mark.parametrize(("knows", "failure"), [(True, "Cancelled"), (False, "NodeLost")], ids=["running", "gone"])
async def test_a_stopped_run_ends_its_trials_and_records_them(knows: bool, failure: str) -> None:
    header = a_header()
    trials, ledger = HangingTrials(knows=knows), MemoryLedger()
    handle = RunHandle(ledger, trials, StandingClock(), built_space=space())
    await handle.open(header)
    for _ in range(2):
        await step(handle)
    assert len(handle.state.running) == 1
    for _ in range(10):
        await step(handle, header.settings.model_copy(update={"stop": True}))
    assert handle.state.finish is not None
    assert handle.state.finish.reason == "Stopped"
    assert handle.state.running == []
    ended = [record for record in await ledger.read() if isinstance(record, TrialFinished)]
    assert [record.failure for record in ended] == [failure]


async def test_a_suspended_run_starts_nothing() -> None:
    trials = HangingTrials(knows=True)
    handle = RunHandle(MemoryLedger(), trials, StandingClock(), built_space=space())
    await handle.open(a_header())
    assert not await step(handle, suspended=True)
    assert trials.seen == {}


async def test_a_trial_that_vanished_is_lost_and_never_started_again() -> None:
    trials = HangingTrials(knows=False)
    handle = RunHandle(MemoryLedger(), trials, StandingClock(), built_space=space())
    await handle.open(a_header())
    for _ in range(6):
        await step(handle)
    assert handle.state.finished_attempts[0].failure == "NodeLost"
    assert trials.started == [("t0001", 1), ("t0001", 2)]


async def test_stopping_a_suspended_run_finishes_it() -> None:
    header = a_header()
    handle = RunHandle(MemoryLedger(), HangingTrials(knows=True), StandingClock(), built_space=space())
    await handle.open(header)
    await step(handle, header.settings.model_copy(update={"stop": True}), suspended=True)
    assert handle.state.finish is not None


@pytest.mark.parametrize("change", ["run_uid", "simulated"])
async def test_a_ledger_of_another_run_is_refused(change: str) -> None:
    ledger = MemoryLedger()
    await ledger.append([a_header()])
    other = a_header(**{change: "another" if change == "run_uid" else True})
    handle = RunHandle(ledger, HangingTrials(knows=True), StandingClock(), built_space=space())
    with pytest.raises(LedgerError, match="belongs to another run"):
        await handle.open(other)
