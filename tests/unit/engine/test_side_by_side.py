"""Several attempts at once: one write for all that start or end, in the plan's order, and none waits for another."""

from collections.abc import Sequence

import pytest

from tests.support.records import a_header
from tests.support.stand_in_kubelet import fixed_report
from tests.unit.engine.test_crashes import StandingClock, space
from tunewright.adapters.ledger.memory import MemoryLedger
from tunewright.engine.run_handle import RunHandle
from tunewright.engine.step import step
from tunewright.errors import ClusterError
from tunewright.planner.records import Record, TrialFinished, TrialStarted
from tunewright.ports import TrialObservation
from tunewright.trial_protocol.request import TrialRequest


class Writes(MemoryLedger):
    """A ledger that remembers what was written together."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[Sequence[Record]] = []

    async def append(self, records: Sequence[Record]) -> None:
        await super().append(records)
        self.batches.append(records)

    def together(self, kind: type[TrialStarted | TrialFinished]) -> list[list[str]]:
        """Return the trials of each write of one kind."""
        told = ([record.trial for record in batch if isinstance(record, kind)] for batch in self.batches)
        return [trials for trials in told if trials]


class Pods:
    """Trials that end when they are told to; `refused` ones cannot be started."""

    def __init__(self) -> None:
        self.seen: dict[str, TrialObservation] = {}
        self.requests: dict[str, TrialRequest] = {}
        self.refused: set[str] = set()

    async def start(self, request: TrialRequest) -> None:
        trial = request.identity.trial
        if trial in self.refused:
            raise ClusterError(f"{trial} is refused")
        assert trial not in self.seen
        self.requests[trial] = request
        self.seen[trial] = TrialObservation(trial, request.identity.attempt, "running")

    async def adopt(self, request: TrialRequest) -> None:
        raise AssertionError("nothing vanishes in this world")

    async def observe(self) -> Sequence[TrialObservation]:
        return list(self.seen.values())

    async def stop(self, trial: str, attempt: int) -> None:
        raise AssertionError("nothing is stopped in this world")

    def end(self, *trials: str) -> None:
        for trial in trials:
            self.seen[trial] = TrialObservation(trial, 1, "finished", report=fixed_report(self.requests[trial]))


async def three_at_once(ledger: Writes, pods: Pods) -> RunHandle:
    """Return a run of which the baseline has ended, and three others are decided."""
    settings = a_header().settings.model_copy(update={"parallel_trials": 3})
    handle = RunHandle(ledger, pods, StandingClock(), built_space=space())
    await handle.open(a_header(settings=settings, simulated=True))
    while len(handle.state.running) < 3:
        pods.end(*pods.seen)
        await step(handle)
    ledger.batches.clear()
    return handle


async def test_what_starts_and_ends_together_is_written_together() -> None:
    ledger, pods = Writes(), Pods()
    handle = await three_at_once(ledger, pods)
    while await step(handle):
        pass
    first, second, third = (trial.name for trial in handle.state.running)
    assert ledger.together(TrialStarted) == [[first, second, third]]
    pods.end(first, second)
    await step(handle)
    assert ledger.together(TrialFinished) == [[first, second]]


async def test_younger_attempts_wait_for_the_oldest() -> None:
    ledger, pods = Writes(), Pods()
    handle = await three_at_once(ledger, pods)
    while await step(handle):
        pass
    first, second, third = (trial.name for trial in handle.state.running)
    pods.end(second, third)
    await step(handle)
    assert ledger.together(TrialFinished) == []
    pods.end(first)
    await step(handle)
    assert ledger.together(TrialFinished) == [[first, second, third]]


async def test_where_one_is_refused_the_others_are_started_and_recorded_and_it_is_tried_again() -> None:
    ledger, pods = Writes(), Pods()
    handle = await three_at_once(ledger, pods)
    first, second, third = (trial.name for trial in handle.state.running)
    pods.refused = {second}
    with pytest.raises(ClusterError, match=f"{second} is refused"):
        await step(handle)
    assert ledger.together(TrialStarted) == [[first, third]]
    pods.refused = set()
    await step(handle)
    assert ledger.together(TrialStarted) == [[first, third], [second]]
