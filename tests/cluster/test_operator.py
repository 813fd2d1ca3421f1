"""The operator as a process against a real control plane; Pods are answered by a stand-in, so no node is needed."""

import asyncio
import base64
import gzip
import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.support.cluster.cluster import Cluster
from tests.support.cluster.namespaces import namespace_on
from tests.support.kube_cluster import apply_run, kube_client
from tests.support.kube_documents import a_tuning_run
from tests.support.operator_process import OperatorProcess
from tests.support.operator_runs import condition, example, gpu_node, is_finished, kubelet_of, wait_for
from tunewright.adapters.kube.client import CONFIG_MAPS, EVENTS, JOBS, TUNING_RUNS, KubeClient
from tunewright.adapters.kube.export import exported_ledger
from tunewright.adapters.kube.ledger import read_shards, shard_text, shards_text
from tunewright.adapters.kube.manifests import LEDGER_KEY
from tunewright.adapters.kube.names import RunReference
from tunewright.adapters.ledger.lines import decode_lines
from tunewright.cli.app import app
from tunewright.planner.records import without_timings
from tunewright.planner.replay import replay

pytestmark = pytest.mark.usefixtures("crd")

Document = dict[str, Any]


async def ledger_of(client: KubeClient, run: RunReference) -> list[object]:
    """Return the ledger's records without clock readings and without what differs between two namespaces."""
    text = shards_text(await read_shards(client, run)).replace(run.uid, "UID").replace(run.namespace, "NAMESPACE")
    return [without_timings(json.loads(line)) for line in text.splitlines()]


async def test_a_run_goes_from_apply_to_measured_results(
    control_plane: Cluster, namespace: str, operator: OperatorProcess
) -> None:
    run = apply_run(control_plane, namespace, example())
    async with kube_client(control_plane) as client, gpu_node(client, namespace) as node:
        with operator:
            async with kubelet_of(client, namespace, node) as kubelet:
                document = await wait_for(client, run, is_finished, operator)
            health = f"http://127.0.0.1:{operator.probe_port}/healthz"
            with urllib.request.urlopen(health, timeout=10) as answer:
                assert answer.status == 200
            assert operator.stop() == 0
        status = document["status"]
        assert status["state"] == "Succeeded"
        assert status["best"]["measured"]["tokensPerSecondPerGPU"] > 0
        assert status["best"]["projected"]["tokensPerSecondPerGPU"] > 0
        assert status["trials"]["failed"] == 0
        assert status["trials"]["measured"] == 5, "the baseline, and twice topK while the order is turned around"
        assert status["observedGeneration"] == 1
        assert "finalizers" not in document["metadata"]
        assert set(document["metadata"]["annotations"]) == {"kubectl.kubernetes.io/last-applied-configuration"}
        assert set(kubelet.seen.values()) == {1}
        assert len(await client.list(JOBS, namespace)) == len(kubelet.seen)
        events = await client.list(EVENTS, namespace, fields="involvedObject.kind=TuningRun")
        reasons = [event["reason"] for event in events]
        assert len(reasons) == len(set(reasons)), "one event a transition"
        assert {"Sweeping", "Validating", "Succeeded"} <= set(reasons)
        result = await client.find(CONFIG_MAPS, namespace, "tiny-result")
        assert result is not None
        assert {"result.json", "best-primus.yaml", "best-megatron.args"} <= set(result["data"])
        page = gzip.decompress(base64.b64decode(result["binaryData"]["report.html.gz"]))
        assert page.startswith(b"<!DOCTYPE html>")
        ledger = await exported_ledger(namespace, "tiny", str(control_plane.kubeconfig))
        assert replay(decode_lines(ledger, "export")) is None
        runner = CliRunner(env={"KUBECONFIG": str(control_plane.kubeconfig)})
        watched = await asyncio.to_thread(runner.invoke, app, ["watch", f"{namespace}/tiny"])
        line = f"Succeeded: trials {status['trials']['summary']}: {status['answer']}\n"
        assert (watched.exit_code, watched.stdout) == (0, line)
        columns = control_plane.kubectl("get", "tuningruns", "-n", namespace)
        assert columns.splitlines()[1].split()[:2] == ["tiny", "Succeeded"]


async def test_a_finished_run_is_not_written_again(
    control_plane: Cluster, namespace: str, operator: OperatorProcess
) -> None:
    run = apply_run(control_plane, namespace, example())
    async with kube_client(control_plane) as client, gpu_node(client, namespace) as node:
        with operator:
            async with kubelet_of(client, namespace, node):
                await wait_for(client, run, is_finished, operator)
            operator.stop()
            before = (await client.find(TUNING_RUNS, namespace, "tiny") or {})["metadata"]["resourceVersion"]
            operator.start()
            later = apply_run(control_plane, namespace, a_tuning_run("later", baseline={"tensorParallelSize": 3}))
            await wait_for(client, later, lambda status: bool(status), operator)
            after = (await client.find(TUNING_RUNS, namespace, "tiny") or {})["metadata"]["resourceVersion"]
    assert after == before


async def undisturbed(control_plane: Cluster, namespace: str, operator: OperatorProcess) -> tuple[list[object], int]:
    run = apply_run(control_plane, namespace, example())
    async with kube_client(control_plane) as client, gpu_node(client, namespace) as node:
        with operator:
            async with kubelet_of(client, namespace, node) as kubelet:
                await wait_for(client, run, is_finished, operator)
        return await ledger_of(client, run), len(kubelet.seen)


async def disturbed(
    control_plane: Cluster, namespace: str, operator: OperatorProcess, kill_after: tuple[int, ...]
) -> tuple[list[object], dict[str, int]]:
    run = apply_run(control_plane, namespace, example())
    async with kube_client(control_plane) as client, gpu_node(client, namespace) as node:
        with operator:
            async with kubelet_of(client, namespace, node) as kubelet:
                for count in kill_after:
                    await wait_for(client, run, lambda _, count=count: len(kubelet.seen) >= count, operator)  # type: ignore[misc]
                    operator.kill()
                await wait_for(client, run, is_finished, operator)
        return await ledger_of(client, run), kubelet.seen


async def test_a_killed_operator_goes_on_where_it_was(control_plane: Cluster, namespace: str, tmp_path: Path) -> None:
    first = OperatorProcess(control_plane, namespace, tmp_path / "undisturbed.log")
    expected, trials = await undisturbed(control_plane, namespace, first)
    with namespace_on(control_plane) as second:
        operator = OperatorProcess(control_plane, second, tmp_path / "disturbed.log")
        ledger, seen = await disturbed(control_plane, second, operator, kill_after=(1, 3, 5))
    assert ledger == expected
    assert len(seen) == trials
    assert set(seen.values()) == {1}, "no trial ran twice"


async def test_a_damaged_ledger_holds_the_run_until_it_is_restored(
    control_plane: Cluster, namespace: str, tmp_path: Path
) -> None:
    first = OperatorProcess(control_plane, namespace, tmp_path / "undisturbed.log")
    expected, trials = await undisturbed(control_plane, namespace, first)
    with namespace_on(control_plane) as second:
        operator = OperatorProcess(control_plane, second, tmp_path / "damaged.log")
        ledger, seen = await damaged(control_plane, second, operator)
    assert ledger == expected
    assert len(seen) == trials
    assert set(seen.values()) == {1}


async def damaged(
    control_plane: Cluster, namespace: str, operator: OperatorProcess
) -> tuple[list[object], dict[str, int]]:
    """Cut a ledger short under a run, see it held, and restore it; return the ledger and the Pods of each Job."""
    run = apply_run(control_plane, namespace, example())
    async with kube_client(control_plane) as client, gpu_node(client, namespace) as node:

        async def write(shard: Document, text: str) -> None:
            change = {"data": {LEDGER_KEY: text}}
            await client.patch(CONFIG_MAPS, namespace, shard["metadata"]["name"], change)

        with operator:
            async with kubelet_of(client, namespace, node) as kubelet:
                await wait_for(client, run, lambda _: len(kubelet.seen) >= 2, operator)
                operator.kill()
                shard = (await read_shards(client, run))[-1]
                whole = shard_text(shard)
                await write(shard, whole[: len(whole) // 2])
                document = await wait_for(client, run, is_unreadable, operator)
                finished = condition(document["status"], "Finished")
                assert finished["status"] == "False"
                assert f"ledger of {run.key}" in finished["message"]
                operator.kill()  # a new process must look at it again as well
                operator.start()
                await write(shard, whole)
                document = await wait_for(client, run, is_finished, operator)
        assert document["status"]["state"] == "Succeeded"
        return await ledger_of(client, run), kubelet.seen


def is_unreadable(status: Document) -> bool:
    return bool(condition(status, "Finished").get("reason") == "LedgerUnreadable")


async def test_what_is_wrong_is_told_in_the_status(
    control_plane: Cluster, namespace: str, operator: OperatorProcess
) -> None:
    illegal = a_tuning_run("illegal", baseline={"tensorParallelSize": 3, "pipelineParallelSize": 5})
    unknown = a_tuning_run("unknown", cluster={"nodes": 1, "accelerator": {"preset": "mi355"}})
    runs = [apply_run(control_plane, namespace, document) for document in (illegal, unknown)]
    async with kube_client(control_plane) as client:
        with operator:
            refused = [
                condition((await wait_for(client, run, lambda status: bool(status), operator))["status"], "Accepted")
                for run in runs
            ]
    assert [item["status"] for item in refused] == ["False"] * 2
    assert [item["reason"] for item in refused] == ["Illegal", "UnknownPreset"]
    assert "tensor-divides-heads" in refused[0]["message"]
    assert "layout-fits-layers" in refused[0]["message"]
    assert "mi355x" in refused[1]["message"]


async def test_without_a_free_node_nothing_is_started(
    control_plane: Cluster, namespace: str, operator: OperatorProcess
) -> None:
    run = apply_run(control_plane, namespace, example(pod={"nodeSelector": {"pool": namespace}}))
    async with kube_client(control_plane) as client:
        with operator:
            document = await wait_for(client, run, lambda status: bool(status), operator)
        assert condition(document["status"], "Accepted")["status"] == "True"
        capacity = condition(document["status"], "CapacityAvailable")
        assert (capacity["status"], capacity["reason"]) == ("False", "NotEnoughNodes")
        assert f"matches pod.nodeSelector pool={namespace}" in capacity["message"]
        assert document["status"]["state"] == "Pending"
        assert await client.list(JOBS, namespace) == []


async def test_a_suspended_run_is_accepted_and_forecast_and_then_runs(
    control_plane: Cluster, namespace: str, operator: OperatorProcess
) -> None:
    run = apply_run(control_plane, namespace, example(suspend=True))
    async with kube_client(control_plane) as client, gpu_node(client, namespace) as node:
        with operator:
            async with kubelet_of(client, namespace, node):
                document = await wait_for(client, run, lambda status: status.get("state") == "Suspended", operator)
                assert document["status"]["forecast"]["trials"] > 0
                assert await client.list(JOBS, namespace) == []
                apply_run(control_plane, namespace, example(suspend=False))
                await wait_for(client, run, is_finished, operator)


async def test_a_stopped_run_keeps_what_it_found(
    control_plane: Cluster, namespace: str, operator: OperatorProcess
) -> None:
    run = apply_run(control_plane, namespace, example())
    async with kube_client(control_plane) as client, gpu_node(client, namespace) as node:
        with operator:
            async with kubelet_of(client, namespace, node) as kubelet:
                await wait_for(client, run, lambda _: len(kubelet.seen) >= 2, operator)
            apply_run(control_plane, namespace, example(stop=True))
            document = await wait_for(client, run, is_finished, operator)
    assert document["status"]["state"] == "Stopped"
    assert condition(document["status"], "Finished")["reason"] == "Stopped"


async def test_deleting_a_run_leaves_nothing(control_plane: Cluster, namespace: str, operator: OperatorProcess) -> None:
    run = apply_run(control_plane, namespace, example())
    async with kube_client(control_plane) as client, gpu_node(client, namespace) as node:
        with operator:
            async with kubelet_of(client, namespace, node) as kubelet:
                await wait_for(client, run, lambda _: len(kubelet.seen) >= 1, operator)
        control_plane.kubectl("delete", "tuningrun", "tiny", "-n", namespace, "--timeout=30s")
        for _ in range(300):
            left = await client.list(JOBS, namespace) + await read_shards(client, run)
            if not left:
                return
            await asyncio.sleep(0.1)
    raise AssertionError(f"left behind: {[item['metadata']['name'] for item in left]}")
