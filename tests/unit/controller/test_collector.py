"""What the garbage collector is given to look at, and when."""

import asyncio
import contextlib
import gc
import weakref
from collections.abc import Iterator

import pytest

from tunewright.controller.collector import Collector


class Knot:
    """An object that only the collector can end."""

    def __init__(self) -> None:
        self.self = self


@pytest.fixture(autouse=True)
def collector_as_it_was() -> Iterator[None]:
    thresholds = gc.get_threshold()
    yield
    gc.set_threshold(*thresholds)
    gc.unfreeze()


def test_what_is_new_and_dead_is_collected() -> None:
    collector = Collector()
    collector.collect()
    dead = weakref.ref(Knot())
    collector.collect()
    assert dead() is None


def test_what_died_frozen_waits_for_a_collection_of_everything() -> None:
    collector = Collector()
    collector.collect()
    knot = Knot()
    collector.collect()
    dead = weakref.ref(knot)
    del knot
    collector.collect()
    assert dead() is not None
    collector.whole = 0  # as if there had been nothing before
    collector.collect()
    assert dead() is None


def test_python_itself_collects_everything_no_more() -> None:
    async def begun() -> None:
        task = asyncio.create_task(Collector().run())
        await asyncio.sleep(0)
        assert gc.get_freeze_count() > 0
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    young, middle, _ = gc.get_threshold()
    asyncio.run(begun())
    assert gc.get_threshold()[:2] == (young, middle)
    assert gc.get_threshold()[2] > 10**6
