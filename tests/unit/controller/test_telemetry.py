"""When an operator calls itself ready, and what its metrics' server answers."""

import asyncio
import threading
import urllib.request
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.cluster.ports import free_ports
from tunewright.adapters.advisor import runtime
from tunewright.adapters.kube.client import KubeClient, Resource
from tunewright.adapters.kube.spec.search import LLMSpec
from tunewright.controller import telemetry as telemetry_module
from tunewright.controller.settings import OperatorSettings
from tunewright.controller.telemetry import Telemetry
from tunewright.errors import AdvisorError, Transient

Document = dict[str, Any]


class Runs(KubeClient):
    """A cluster that has these TuningRuns, as "namespace/name"; a fault, once, comes before the first answer."""

    def __init__(self, *keys: str, fault: Exception | None = None) -> None:
        super().__init__(None)
        self.keys = set(keys)
        self.fault = fault
        self.asked: list[str] = []

    async def list(
        self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> list[Document]:
        self.asked.append(namespace)
        if self.fault is not None:
            fault, self.fault = self.fault, None
            raise fault
        parts = [key.split("/") for key in sorted(self.keys)]
        return [{"metadata": {"namespace": own, "name": name}} for own, name in parts if namespace in ("", own)]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry_module, "_LOOK_SECONDS", 0.001)


async def becomes_ready(telemetry: Telemetry, client: KubeClient) -> None:
    await asyncio.wait_for(telemetry.become_ready(client), 60)
    assert telemetry.heartbeat.is_ready


async def test_without_runs_an_operator_is_ready_as_soon_as_it_has_looked() -> None:
    client = Runs()
    await becomes_ready(Telemetry(OperatorSettings()), client)
    assert client.asked == [""]


async def test_an_operator_is_ready_once_the_watch_has_shown_every_run_of_its_namespaces() -> None:
    telemetry = Telemetry(OperatorSettings(namespaces=("a", "b")))
    client = Runs("a/one", "b/two", "c/not-ours")
    telemetry.board.saw("a/one", {})
    task = asyncio.create_task(telemetry.become_ready(client))
    while len(client.asked) < 4:  # it looked again, and was not satisfied
        await asyncio.sleep(0)
    assert not telemetry.heartbeat.is_ready
    telemetry.board.saw("b/two", {})
    await asyncio.wait_for(task, 60)
    assert telemetry.heartbeat.is_ready
    assert set(client.asked) == {"a", "b"}


async def test_a_run_that_is_deleted_meanwhile_is_not_waited_for() -> None:
    telemetry, client = Telemetry(OperatorSettings()), Runs("a/one")
    task = asyncio.create_task(telemetry.become_ready(client))
    while not client.asked:
        await asyncio.sleep(0)
    client.keys.clear()
    await asyncio.wait_for(task, 60)
    assert telemetry.heartbeat.is_ready


async def test_a_cluster_that_does_not_answer_is_asked_again() -> None:
    await becomes_ready(Telemetry(OperatorSettings()), Runs(fault=Transient("GET tuningruns: 500")))


async def test_readiness_does_not_wait_for_the_llm_to_load(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()
    monkeypatch.setattr(runtime, "load", lambda: gate.wait(60))
    telemetry = Telemetry(OperatorSettings(llm=LLMSpec(model="openai/own")))
    task = asyncio.create_task(telemetry.become_ready(Runs()))
    while not telemetry.heartbeat.is_ready:
        await asyncio.sleep(0)
    assert not task.done()
    gate.set()
    await task


async def test_an_llm_that_cannot_be_loaded_is_told_and_stops_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def load() -> None:
        raise AdvisorError("NotConfigured", "litellm is not installed")

    monkeypatch.setattr(runtime, "load", load)
    await becomes_ready(Telemetry(OperatorSettings(llm=LLMSpec(model="openai/own"))), Runs())
    assert "litellm is not installed" in caplog.text


def test_metrics_are_served_as_text_that_prometheus_reads() -> None:
    (port,) = free_ports(1)
    with (
        Telemetry(OperatorSettings(probe_port=0, metrics_port=port)).serving(),
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer,
    ):
        families = {family.name: family for family in text_string_to_metric_families(answer.read().decode())}
    assert families["tunewright_event_loop_lag_seconds"].type == "histogram"
    assert families["tunewright_event_loop_lag_seconds"].documentation
    assert not [name for name in families if name.endswith("_created")]
