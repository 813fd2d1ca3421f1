"""An operator that is killed, replaced by another version, or there twice: nothing is lost, doubled or asked again."""

import asyncio
import json
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.cluster.test_operator_llm import WIDE, own_endpoint
from tests.support.cluster.control_plane import ControlPlane
from tests.support.fault_proxy import FaultProxy
from tests.support.fault_runs import SMALL, assert_same_as, finished_ledger, proxied_scene, scene
from tests.support.forked_operator import ForkedOperator
from tests.support.kills import AtEachStep, AtRandom
from tests.support.openai_server import OpenAIServer, SeenRequest, Step, proposals
from tests.support.operator_runs import is_finished
from tests.support.operator_scene import Gate, Scene
from tunewright.adapters.kube.ledger import read_shards, shard_text

pytestmark = pytest.mark.usefixtures("own_crd")

Document = dict[str, Any]
SMALL_SHARD_BYTES = 12 * 1024


@pytest.fixture(scope="module")
def undisturbed(own_control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> list[object]:
    """The ledger of the whole example."""
    return asyncio.run(finished_ledger(own_control_plane, tmp_path_factory.mktemp("undisturbed")))


async def killed_run(here: Scene, proxy: FaultProxy, plan: AtEachStep | AtRandom) -> Document:
    proxy.plan = plan
    here.apply()
    return await here.until(is_finished, seconds=600)


async def reached(plan: AtEachStep, seconds: int = 60) -> None:
    """Wait for what comes after the status that ends a run: its event."""
    for _ in range(seconds * 10):
        if not plan.left:
            return
        await asyncio.sleep(0.1)


def forked(here: Scene) -> ForkedOperator:
    assert isinstance(here.operator, ForkedOperator)
    return here.operator


async def test_a_kill_before_and_after_each_step_changes_nothing(
    own_control_plane: ControlPlane, tmp_path: Path, undisturbed: list[object]
) -> None:
    """Shards are small here, so that full ones are sealed and followed by others."""
    small = {"tunewright.adapters.kube.ledger.LIVE_SHARD_BYTES": SMALL_SHARD_BYTES}
    async with proxied_scene(own_control_plane, tmp_path, constants=small) as (here, proxy):
        plan = AtEachStep(forked(here))
        await killed_run(here, proxy, plan)
        await assert_same_as(here, undisturbed)
        shards = await read_shards(here.client, here.run)
        await reached(plan)
    assert plan.left == [], "every step was reached"
    assert [bool(shard.get("immutable")) for shard in shards] == [True] * (len(shards) - 1) + [False]
    assert all(len(shard_text(shard).encode()) <= SMALL_SHARD_BYTES for shard in shards[1:])


@pytest.mark.parametrize("kills", [8, pytest.param(200, marks=pytest.mark.long)])
async def test_kills_at_random_requests_change_nothing(
    own_control_plane: ControlPlane, tmp_path: Path, undisturbed: list[object], kills: int
) -> None:
    """Over as many whole runs as that takes."""
    random, left = Random(0), kills
    while left:
        async with proxied_scene(own_control_plane, tmp_path) as (here, proxy):
            plan = AtRandom(forked(here), random, left)
            await killed_run(here, proxy, plan)
            await assert_same_as(here, undisturbed)
            left = plan.left


class Asked(OpenAIServer):
    """An endpoint that kills who asks it, at every second question."""

    operator: ForkedOperator | None = None

    def take(self, request: SeenRequest) -> Step:
        step = super().take(request)
        if self.operator is not None and len(self.requests) % 2 == 0:
            self.operator.die()
        return step


@pytest.mark.parametrize("kills", [4, pytest.param(40, marks=pytest.mark.long)])
async def test_no_round_is_asked_twice_of_an_llm(
    own_control_plane: ControlPlane, tmp_path: Path, request: pytest.FixtureRequest, kills: int
) -> None:
    explore = {"strategy": "LLM", "llmSharePercent": 100, "patience": 4}
    server = Asked(proposals({"tensor_parallel_size": 4, "micro_batch_size": 2}))
    server.start()
    request.addfinalizer(server.stop)
    async with proxied_scene(own_control_plane, tmp_path, variables=own_endpoint(server.api_base)) as (here, proxy):
        server.operator = forked(here)
        proxy.plan = AtRandom(forked(here), Random(0), kills)
        here.apply(searchSpace=WIDE, explore=explore)
        status = await here.until(is_finished, seconds=600)
        ledger = await here.ledger()
    asked = [item["round"] for line in ledger for item in line.get("decisions", ()) if item["type"] == "ask-advisor"]
    outcomes = {line["round"]: line["outcome"] for line in ledger if line["type"] == "advice"}
    assert asked == sorted(set(asked)) == sorted(outcomes), "one intent and one answer a round"
    assert {"answered", "lost"} <= set(outcomes.values())
    bodies = Counter(json.dumps(asking.body, sort_keys=True) for asking in server.requests)
    assert set(bodies.values()) == {1}, "nothing was asked twice"
    assert len(server.requests) <= len(asked)
    assert set(here.kubelet.seen.values()) == {1}
    assert status["state"] == "Succeeded"


@pytest.mark.parametrize("kills", [0, pytest.param(20, marks=pytest.mark.long)])
async def test_a_second_operator_by_mistake_does_no_harm(
    own_control_plane: ControlPlane, tmp_path: Path, undisturbed: list[object], kills: int
) -> None:
    async with proxied_scene(own_control_plane, tmp_path) as (here, proxy):
        second = ForkedOperator(own_control_plane, here.namespace, tmp_path / "second.log")
        proxy.plan = AtRandom(forked(here), Random(1), kills)
        with second:
            here.apply()
            status = await here.until(is_finished, seconds=300)
            assert second.is_running
            await assert_same_as(here, undisturbed)
    assert status["state"] == "Succeeded"


async def test_another_version_goes_on_with_a_run_and_the_first_takes_it_back(
    own_control_plane: ControlPlane, tmp_path: Path
) -> None:
    expected = await finished_ledger(own_control_plane, tmp_path, **SMALL)
    gate = Gate(passing=1)
    async with scene(own_control_plane, tmp_path, gate) as here:
        here.apply(**SMALL)
        await here.until_running(2)
        for version in ("9.0.0", ""):
            here.operator.kill()
            forked(here).constants = {"tunewright.__version__": version} if version else {}
            here.operator.start()
        gate.is_open = True
        status = await here.until(is_finished)
        await assert_same_as(here, expected)
    assert status["state"] == "Succeeded"
