"""A run that is killed between any two calls to the world continues as if nothing had happened."""

import asyncio
from collections.abc import Sequence
from functools import cache

import pytest

from tests.support.records import AT, a_header
from tunewright.adapters.ledger.memory import MemoryLedger
from tunewright.adapters.trials.simulated import HiddenTruth, SimulatedTrials
from tunewright.engine.run_handle import RunHandle
from tunewright.engine.step import step
from tunewright.planner.records import (
    Advice,
    Header,
    Record,
    Round,
    TrialFinished,
    TrialStarted,
    record_line,
    without_timings,
)
from tunewright.planner.replay import replay, replay_projections
from tunewright.planner.settings import ExploreSettings, LLMSettings
from tunewright.ports import AdviceRequest, TrialObservation
from tunewright.search.space import Space, build_space
from tunewright.trial_protocol.request import TrialRequest

MOST_STEPS = 500


class Killed(BaseException):
    """Stands for SIGKILL: nothing may catch it."""


class StandingClock:
    """A clock that does not move, so that whole ledgers compare equal."""

    def now(self) -> str:
        return AT

    def seconds(self) -> float:
        return 0.0


class World:
    """What survives the process: the ledger and the trials, with a countdown to the kill before or after a call.

    From the kill on, the process does nothing more to the world, until another is `born`.
    """

    def __init__(self, calls_to_live: int | None = None, *, acts_before_dying: bool = False) -> None:
        self.kept = MemoryLedger()
        self.cluster = SimulatedTrials(HiddenTruth())
        self.started: list[tuple[str, int]] = []
        self.left = calls_to_live
        self._acts = acts_before_dying
        self._is_dead = False

    def born(self) -> None:
        """Another process begins."""
        self._is_dead = False

    async def read(self) -> Sequence[Record]:
        return await self.kept.read()

    async def append(self, records: Sequence[Record]) -> None:
        dies = self._count()
        if not dies or self._acts:
            await self.kept.append(records)
        if dies:
            raise Killed

    async def start(self, request: TrialRequest) -> None:
        dies = self._count()
        if not dies or self._acts:
            self.started.append((request.identity.trial, request.identity.attempt))
            await self.cluster.start(request)
        if dies:
            raise Killed

    async def adopt(self, request: TrialRequest) -> None:
        raise AssertionError("nothing vanishes in this world")

    async def observe(self) -> Sequence[TrialObservation]:
        return await self.cluster.observe()

    async def stop(self, trial: str, attempt: int) -> None:
        await self.cluster.stop(trial, attempt)

    def _count(self) -> bool:
        """Count a call; return whether the process dies at it."""
        if self._is_dead:
            raise Killed
        if self.left is None:
            return False
        self.left -= 1
        if self.left > 0:
            return False
        self.left = None
        self._is_dead = True
        return True


@cache
def space() -> Space:
    header = a_header()
    return build_space(header.problem, header.settings)


async def drive(world: World, header: Header) -> None:
    world.born()
    handle = RunHandle(world, world, StandingClock(), built_space=space())
    await handle.open(header)
    for _ in range(MOST_STEPS):
        if not await step(handle) and handle.state.finish is not None:
            return
    raise AssertionError(f"no end after {MOST_STEPS} steps")


async def drive_to_the_end(world: World, header: Header) -> int:
    """Start a new process each time one is killed; return how many were."""
    kills = 0
    while True:
        try:
            await drive(world, header)
        except Killed:
            kills += 1
        else:
            return kills


@pytest.fixture(scope="module")
def header() -> Header:
    """A run of several trials at once, so that a kill may leave some of them started and none recorded."""
    return a_header(simulated=True, settings=a_header().settings.model_copy(update={"parallel_trials": 3}))


async def calls_of_an_undisturbed_run(header: Header) -> tuple[list[Record], int]:
    world = World(calls_to_live=10**6)
    await drive(world, header)
    assert world.left is not None
    return await world.kept.read(), 10**6 - world.left


@pytest.mark.parametrize("acts_before_dying", [False, True], ids=["before the call", "after the call"])
async def test_a_kill_at_any_call_gives_the_same_ledger_and_starts_nothing_twice(
    header: Header, acts_before_dying: bool
) -> None:
    undisturbed, calls = await calls_of_an_undisturbed_run(header)
    assert calls > 20
    for number in range(1, calls + 1):
        world = World(number, acts_before_dying=acts_before_dying)
        assert await drive_to_the_end(world, header) == 1
        records = await world.kept.read()
        assert [without_timings(r.to_json()) for r in records] == [without_timings(r.to_json()) for r in undisturbed]
        assert len(world.started) == len(set(world.started)), f"started twice after a kill at call {number}"


async def test_an_undisturbed_run_replays_identically(header: Header) -> None:
    records, _ = await calls_of_an_undisturbed_run(header)
    assert replay(records) is None
    assert len({record_line(record) for record in records}) == len(records)


def has_profile(record: TrialFinished) -> bool:
    return record.report is not None and record.report.profile is not None


async def test_every_projection_that_was_used_is_recorded_and_derived_again(header: Header) -> None:
    records, _ = await calls_of_an_undisturbed_run(header)
    recorded = [figure for record in records if isinstance(record, Round) for figure in record.projections]
    profiles = [record.trial for record in records if isinstance(record, TrialFinished) and has_profile(record)]
    assert set(profiles) <= {figure.trial for figure in recorded}
    assert all(0 < figure.low <= figure.projected <= figure.high for figure in recorded)
    assert replay_projections(records) is None


async def test_a_started_trial_is_recorded_with_the_digest_of_its_request(header: Header) -> None:
    records, _ = await calls_of_an_undisturbed_run(header)
    digests = [record.request_digest for record in records if isinstance(record, TrialStarted)]
    assert len(set(digests)) == len(digests) > 3
    assert all(len(digest) == 64 for digest in digests)


class SilentAdvisor:
    """Never answers: the process dies first."""

    async def ask(self, request: AdviceRequest) -> Advice:
        await asyncio.Event().wait()
        raise AssertionError


async def test_a_crash_while_the_llm_is_asked_closes_the_round_as_lost() -> None:
    llm = LLMSettings(model="openai/scripted")
    explore = ExploreSettings(llm_share_percent=100)
    asking = a_header(simulated=True, settings=a_header().settings.model_copy(update={"llm": llm, "explore": explore}))
    ledger, trials = MemoryLedger(), SimulatedTrials(HiddenTruth())
    first = RunHandle(ledger, trials, StandingClock(), SilentAdvisor(), built_space=space())
    await first.open(asking)
    while not first.asked:
        await step(first)
    intents = [r for r in await ledger.read() if isinstance(r, Round) and r.decisions[-1].type == "ask-advisor"]
    assert len(intents) == 1, "the intent is written before the call"
    await first.close()
    second = RunHandle(ledger, trials, StandingClock(), None, built_space=space())
    await second.open(asking)
    await step(second)
    advice = [record for record in await ledger.read() if isinstance(record, Advice)]
    assert [(record.round, record.outcome) for record in advice] == [(1, "lost")]
    assert second.state.spent.llm_tokens == second.state.asked[1].ask.reserved_tokens > 0
