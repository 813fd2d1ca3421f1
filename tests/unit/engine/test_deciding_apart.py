"""A run whose driver does not wait for decisions: the same ledger, and nothing happens to it meanwhile."""

import asyncio

from tests.support.records import a_header
from tests.unit.engine.test_crashes import MOST_STEPS, StandingClock, World, drive, space
from tunewright.engine.run_handle import RunHandle
from tunewright.engine.step import step
from tunewright.planner.records import Header, record_line, without_timings
from tunewright.planner.settings import PlannerSettings


async def a_handle(world: World, header: Header, told: asyncio.Event) -> RunHandle:
    handle = RunHandle(world, world, StandingClock(), built_space=space(), on_decision=told.set)
    await handle.open(header)
    return handle


async def to_the_end(handle: RunHandle, told: asyncio.Event, settings: PlannerSettings | None = None) -> None:
    for _ in range(MOST_STEPS):
        if await step(handle, settings):
            continue
        if handle.deciding is not None:
            await told.wait()
            told.clear()
        elif handle.state.finish is not None:
            return
    raise AssertionError(f"no end after {MOST_STEPS} steps")


async def lines(world: World) -> list[object]:
    return [without_timings(record.to_json()) for record in await world.kept.read()]


async def test_the_ledger_is_that_of_a_driver_who_waits() -> None:
    header, apart, waiting = a_header(simulated=True), World(), World()
    told = asyncio.Event()
    await to_the_end(await a_handle(apart, header, told), told)
    await drive(waiting, header)
    assert await lines(apart) == await lines(waiting)
    assert apart.started == waiting.started


async def test_nothing_is_written_while_a_decision_is_made() -> None:
    header, world = a_header(simulated=True), World()
    handle = await a_handle(world, header, asyncio.Event())
    assert not await step(handle)
    assert handle.is_deciding
    assert not await step(handle, header.settings.model_copy(update={"stop": True}))
    assert [record_line(record) for record in await world.kept.read()] == [record_line(header)]
    await handle.close()


async def test_what_was_decided_for_a_run_that_was_to_go_on_is_forgotten_when_it_is_to_stop() -> None:
    header, world, told = a_header(simulated=True), World(), asyncio.Event()
    handle = await a_handle(world, header, told)
    await step(handle)
    await told.wait()
    told.clear()
    await to_the_end(handle, told, header.settings.model_copy(update={"stop": True}))
    assert handle.state.finish is not None
    assert (handle.state.finish.reason, handle.state.trials, world.started) == ("Stopped", {}, [])
