"""An API server that refuses, forgets, dawdles or goes away: the ledger is that of an undisturbed run."""

import asyncio
import itertools
import json
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cluster.test_operator_llm import WIDE, own_endpoint
from tests.support.cluster.control_plane import ControlPlane
from tests.support.fault_proxy import (
    Call,
    Harm,
    Plan,
    dropping_the_watch,
    ending_the_watch_with,
    fault_proxy,
    hanging_up,
    losing_the_answer,
    refusing,
    slow,
)
from tests.support.fault_runs import SMALL, assert_same_as, finished_ledger, proxied_scene, scene
from tests.support.kills import ANSWER_RECORDED
from tests.support.openai_server import proposals, serving
from tests.support.operator_runs import is_finished
from tunewright.adapters.kube.client import NODES, connected
from tunewright.errors import Transient

pytestmark = pytest.mark.usefixtures("own_crd")


@pytest.fixture(scope="module")
def undisturbed(own_control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> list[object]:
    return asyncio.run(finished_ledger(own_control_plane, tmp_path_factory.mktemp("undisturbed"), **SMALL))


@dataclass(frozen=True)
class Fault:
    """Harm each `step`th of the chosen requests, until it was enough: a fault passes."""

    chosen: Callable[[Call], bool]
    step: int
    harm: Harm
    most: int = 12

    def plan(self) -> Plan:
        counted = itertools.count(1)

        def chosen(call: Call) -> Harm | None:
            number = next(counted) if self.chosen(call) else 0
            return self.harm if number and number % self.step == 0 and number <= self.step * self.most else None

        return chosen


def is_write(call: Call) -> bool:
    return call.is_write


def is_read(call: Call) -> bool:
    return not call.is_write and not call.is_watch


def is_watch(call: Call) -> bool:
    return call.is_watch


def is_any(_: Call) -> bool:
    return True


FAULTS: dict[str, Fault] = {
    "writes-conflict": Fault(is_write, 3, refusing(409, "Conflict")),
    "throttled": Fault(is_any, 2, refusing(429, "TooManyRequests", Retry_After="1")),
    "answers-of-writes-are-lost": Fault(is_write, 3, losing_the_answer()),
    "reads-fail": Fault(is_read, 3, refusing(503, "ServiceUnavailable")),
    "connections-break-before": Fault(is_any, 4, hanging_up(after=False)),
    "watches-expire": Fault(is_watch, 1, ending_the_watch_with(410, "Expired", 0.7)),
}
MORE_FAULTS: dict[str, Fault] = {
    "writes-fail": Fault(is_write, 3, refusing(500, "InternalError")),
    "connections-break-after": Fault(is_write, 3, hanging_up(after=True)),
    "slow": Fault(is_any, 1, slow(0.2), most=10_000),
    "watches-drop": Fault(is_watch, 1, dropping_the_watch(0.7)),
    "watches-fail": Fault(is_watch, 2, ending_the_watch_with(500, "InternalError", 0.7)),
}
ROWS = [*FAULTS, *(pytest.param(name, marks=pytest.mark.long) for name in MORE_FAULTS)]


@pytest.mark.parametrize("fault", ROWS)
async def test_a_run_under_a_fault_leaves_the_ledger_of_an_undisturbed_one(
    own_control_plane: ControlPlane, tmp_path: Path, undisturbed: list[object], fault: str
) -> None:
    async with proxied_scene(own_control_plane, tmp_path) as (here, proxy):
        proxy.plan = (FAULTS | MORE_FAULTS)[fault].plan()
        here.apply(**SMALL)
        status = await here.until(is_finished, seconds=300)
        await assert_same_as(here, undisturbed)
    assert status["state"] == "Succeeded"
    assert proxy.harmed >= 3


async def test_a_request_is_sent_again_when_the_api_server_says_how_long_to_wait(
    own_control_plane: ControlPlane, tmp_path: Path
) -> None:
    async with fault_proxy(own_control_plane, tmp_path) as (proxy, kubeconfig), connected(str(kubeconfig)) as client:
        proxy.plan = Fault(is_any, 1, refusing(429, "TooManyRequests", Retry_After="1"), most=2).plan()
        assert await client.list(NODES) is not None
        assert proxy.harmed == 2
        proxy.plan = Fault(is_any, 1, refusing(429, "TooManyRequests"), most=3).plan()
        with pytest.raises(Transient, match="TooManyRequests"):
            await client.list(NODES)


async def test_an_answer_of_the_llm_that_could_not_be_written_is_written_later(
    own_control_plane: ControlPlane, tmp_path: Path
) -> None:
    with serving(proposals({"tensor_parallel_size": 4, "micro_batch_size": 2})) as server:
        variables = own_endpoint(server.api_base)
        async with proxied_scene(own_control_plane, tmp_path, variables=variables) as (here, proxy):
            proxy.plan = Fault(ANSWER_RECORDED.is_met_by, 1, refusing(500, "InternalError"), most=3).plan()
            here.apply(searchSpace=WIDE, explore={"strategy": "LLM", "llmSharePercent": 100, "patience": 1})
            await here.until(is_finished)
            outcomes = [line["outcome"] for line in await here.ledger() if line["type"] == "advice"]
    assert proxy.harmed == 3
    assert len(server.requests) == len(outcomes)
    assert set(outcomes) == {"answered"}


@pytest.mark.parametrize("seconds", [3, pytest.param(60, marks=pytest.mark.long)])
async def test_an_outage_is_sat_out(
    own_control_plane: ControlPlane, tmp_path: Path, undisturbed: list[object], seconds: int
) -> None:
    async with proxied_scene(own_control_plane, tmp_path) as (here, proxy):
        here.apply(**SMALL)
        await here.until_running(2)
        await proxy.refuse()
        await asyncio.sleep(seconds)
        await proxy.accept()
        await here.until(is_finished, seconds=300)
        await assert_same_as(here, undisturbed)


@pytest.mark.parametrize("restarts", [1, pytest.param(10, marks=pytest.mark.long)])
async def test_an_api_server_that_restarts_on_a_compacted_store_loses_nothing(
    own_control_plane: ControlPlane, tmp_path: Path, undisturbed: list[object], restarts: int
) -> None:
    async with scene(own_control_plane, tmp_path) as here:
        here.apply(**SMALL)
        await here.until_running(1)
        for _ in range(restarts):
            compact(own_control_plane)
            own_control_plane.processes.restart("kube-apiserver")
            await asyncio.to_thread(own_control_plane.wait_ready)
        await here.until(is_finished, seconds=300)
        await assert_same_as(here, undisturbed)


def compact(cluster: ControlPlane) -> None:
    """Let etcd forget every version of every object but the last."""
    revision = asked_of_etcd(cluster, "range", {"key": "AA=="})["header"]["revision"]  # type: ignore[index]
    asked_of_etcd(cluster, "compaction", {"revision": revision})


def asked_of_etcd(cluster: ControlPlane, what: str, body: dict[str, object]) -> dict[str, object]:
    address = f"http://127.0.0.1:{cluster.endpoints.etcd}/v3/kv/{what}"
    with urllib.request.urlopen(address, json.dumps(body).encode(), timeout=30) as answer:
        document: dict[str, object] = json.load(answer)
    return document
