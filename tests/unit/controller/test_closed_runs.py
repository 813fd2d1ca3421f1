"""A run that is closed goes at once: what is frozen of a long one, no collection of garbage would ever find."""

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

from tests.support.kube_documents import A_RUN, a_tuning_run, pod_options
from tests.support.records import a_header
from tests.unit.engine.test_crashes import StandingClock, space
from tunewright.adapters.kube.acceptance import accept
from tunewright.adapters.kube.client import KubeClient
from tunewright.adapters.kube.ledger import ConfigMapLedger
from tunewright.adapters.kube.prewarm import Prewarm
from tunewright.adapters.kube.trials import KubeTrials
from tunewright.adapters.ledger.lines import decode_lines
from tunewright.adapters.ledger.memory import MemoryLedger
from tunewright.adapters.trials.simulated import HiddenTruth, SimulatedTrials
from tunewright.controller.counted_run import CountedRun
from tunewright.controller.live_run import LiveRun
from tunewright.controller.metrics import OperatorMetrics
from tunewright.domain.catalog_loader import shipped_catalog
from tunewright.engine.step import step


@pytest.fixture
def without_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


async def a_live_run() -> LiveRun:
    """Return a run as the wiring makes it, but for its trials, which answer at once, and its ledger, in memory."""
    client, accepted = KubeClient(None), accept(a_tuning_run(), shipped_catalog(), default_image="trial")
    trials, own_space = SimulatedTrials(HiddenTruth()), space().for_another_run()
    handle = CountedRun(MemoryLedger(), trials, StandingClock(), built_space=own_space, metrics=OperatorMetrics())
    live = LiveRun(
        A_RUN,
        1,
        accepted,
        ConfigMapLedger(client, A_RUN, decode_lines),
        KubeTrials(client, A_RUN, pod_options()),
        handle,
        Prewarm(client, A_RUN),
    )
    live.adopt(1, accepted, None)
    await handle.open(a_header(simulated=True))
    return live


async def test_nothing_of_a_closed_run_waits_for_the_garbage_collector(without_collector: None) -> None:
    live = await a_live_run()
    while live.handle.state.finish is None:
        await step(live.handle)
    view = await live.view(None, None)
    assert view.summary.finish_reason is not None
    kept: list[weakref.ref[object]] = [weakref.ref(one) for one in (live, live.trials, live.handle.state)]
    await live.close()
    await asyncio.get_running_loop().shutdown_default_executor()  # a thread lets go of its work after it told of it
    del live, view
    assert [one() for one in kept] == [None] * 3
