"""Validation on several nodes, for real: an indexed Job of two Pods that meet by name and train with gloo."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.test_tuning_run import apply_example, exported, status_of, wait_until_finished
from tests.support.cluster.node import Node
from tests.support.cluster.waiting import wait_until
from tests.support.host_python_claims import trial_on_host_python
from tests.support.kube_cluster import apply_run, install_crd, kube_client
from tests.support.kube_documents import a_request, a_tuning_run, pod_options
from tests.support.operator_process import OperatorProcess
from tunewright.adapters.kube.client import JOBS, PODS
from tunewright.adapters.kube.labels import OWN_OBJECTS
from tunewright.adapters.kube.spec.trial import PodSpec, TrialSpec
from tunewright.adapters.kube.trials import KubeTrials
from tunewright.planner.records import TrialFinished
from tunewright.planner.replay import replay
from tunewright.ports import TrialObservation
from tunewright.trial_protocol.request import ExpectedDevice, TrialRequest

Document = dict[str, Any]


@pytest.fixture(scope="module", autouse=True)
def crd(node: Node) -> None:
    install_crd(node.cluster)


@pytest.fixture
def sixteen_gpus(node: Node) -> Iterator[None]:
    """Room for two Pods of eight on the one node."""
    node.set_gpus(16)
    yield
    node.set_gpus(8)


@pytest.mark.usefixtures("sixteen_gpus")
@pytest.mark.parametrize("gpus", [1, pytest.param(8, marks=pytest.mark.long)])
def test_a_run_is_measured_on_two_nodes_and_says_so(
    node: Node, node_namespace: str, tmp_path: Path, gpus: int, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = {"nodes": 2, "gpusPerNode": gpus, "accelerator": {"preset": "mi355x"}}
    space = {"microBatchSize": [1], "pipelineSchedule": ["1f1b"], "recomputeGranularity": ["none"]}
    operator = OperatorProcess(node.cluster, node_namespace, tmp_path / "operator.log")
    apply_example(
        node,
        node_namespace,
        cluster=cluster,
        searchSpace=space | {"tensorParallelSize": [1], "pipelineParallelSize": [1, 2]},
        baseline={"tensorParallelSize": 1, "pipelineParallelSize": 2, "microBatchSize": 1},
        validation={"nodes": 2, "topK": 1, "steps": 3, "repeats": 1},
        budget={"maxTrials": 1},
    )
    with operator:
        status = wait_until_finished(node, node_namespace, operator)
    with capsys.disabled():
        print("\n" + yaml.safe_dump({"best": status.get("best"), "answer": status["answer"]}, sort_keys=False))
    assert status["state"] == "Succeeded"
    assert status["best"]["measured"]["nodes"] == 2
    records = exported(node, node_namespace)
    assert replay(records) is None
    measured = [r.report.measured for r in records if isinstance(r, TrialFinished) and r.report and r.report.measured]
    assert measured
    assert {(one.nodes, one.world_size) for one in measured} == {(2, 2 * gpus)}
    assert_one_pod_a_node(node, node_namespace, gpus)
    kubectl = node.cluster.kubectl
    kubectl("delete", "tuningrun", "tiny", f"--namespace={node_namespace}")
    left = ["jobs,services", f"--selector={OWN_OBJECTS}", f"--namespace={node_namespace}", "--output=name"]
    wait_until(lambda: not kubectl("get", *left), "nothing of the run is left", every=0.5)


def assert_one_pod_a_node(node: Node, namespace: str, gpus: int) -> None:
    """Each measurement was an indexed Job of two Pods; only Pod 0 left a document."""
    kubectl = node.cluster.kubectl
    pods = kubectl.get("pods", "--selector=tunewright.dev/kind=measure", namespace=namespace)["items"]
    indices = [pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] for pod in pods]
    assert sorted(indices) == sorted(["0", "1"] * (len(pods) // 2))
    for index, pod in zip(indices, pods, strict=True):
        assert pod["spec"]["containers"][0]["resources"]["limits"]["amd.com/gpu"] == str(gpus)
        ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]
        assert ended["exitCode"] == 0
        assert bool(ended.get("message")) == (index == "0")


def test_a_node_that_never_comes_ends_the_start_of_all_and_the_run_says_which(
    node: Node, node_namespace: str, tmp_path: Path
) -> None:
    """There is room for one Pod of eight. The other waits in vain, and the first trains nothing before it is there."""
    operator = OperatorProcess(node.cluster, node_namespace, tmp_path / "operator.log")
    apply_example(
        node,
        node_namespace,
        cluster={"nodes": 2, "gpusPerNode": 8, "accelerator": {"preset": "mi355x"}},
        validation={"nodes": 2, "topK": 0, "steps": 3},
        budget={"maxTrials": 1, "maxFailedTrials": 0},
        pod={"capacityCheck": "Warn", "startDeadlineSeconds": 30, "runDeadlineSeconds": 600},
    )
    with operator:
        wait_until_finished(node, node_namespace, operator)
    ended = [r for r in exported(node, node_namespace) if isinstance(r, TrialFinished) and r.failure]
    assert [one.failure for one in ended] == ["Unschedulable"]
    assert "startDeadlineSeconds 30: node 1: " in ended[0].message
    assert "Insufficient amd.com/gpu" in ended[0].message
    assert ended[0].gpu_seconds > 0
    assert status_of(node, node_namespace)["best"].get("measured") is None


@pytest.mark.usefixtures("sixteen_gpus")
async def test_a_pod_that_is_taken_away_ends_the_attempt_and_its_peer_says_so(node: Node, node_namespace: str) -> None:
    """The Job controller ends the other Pod, whose object may be gone by then: what it said first is what is told."""
    run = apply_run(node.cluster, node_namespace, a_tuning_run())
    trial = trial_on_host_python(node.cluster.kubectl, node_namespace, node.base_image())
    options = replace(pod_options(TrialSpec.parse(trial)), image=node.base_image(), gpus_per_node=1)
    async with kube_client(node.cluster) as client:
        trials = KubeTrials(client, run, options)
        await trials.start(endless_on_two_nodes(run.uid))
        await eventually(trials, lambda seen: seen.state == "running")
        pods = await client.list(PODS, node_namespace, labels="tunewright.dev/trial=t0012")
        (second,) = [pod["metadata"]["name"] for pod in pods if pod["spec"]["hostname"].endswith("-1")]
        node.cluster.kubectl("delete", "pod", second, "--wait=false", f"--namespace={node_namespace}")
        seen = await eventually(trials, lambda seen: seen.state == "finished")
    assert (seen.failure, seen.report is not None) == ("RcclFailure", True)
    assert seen.message.startswith("node 0 (Pod ")
    assert "rank 0: " in seen.message
    assert seen.gpu_seconds > 0


@pytest.mark.usefixtures("sixteen_gpus")
async def test_what_a_queue_evicts_queues_again_and_runs_again(node: Node, node_namespace: str) -> None:
    """The test plays Kueue: it lets the Job run, suspends it, and lets it run again. Interrupted Pods fail no Job."""
    run = apply_run(node.cluster, node_namespace, a_tuning_run())
    trial = TrialSpec.parse(trial_on_host_python(node.cluster.kubectl, node_namespace, node.base_image()))
    queued = pod_options(trial, PodSpec(queue_name="tuning"))
    options = replace(queued, image=node.base_image(), gpus_per_node=1)
    async with kube_client(node.cluster) as client:
        trials = KubeTrials(client, run, options)
        await trials.start(endless_on_two_nodes(run.uid))
        (waiting,) = await trials.observe()
        assert waiting.state == "queued"
        job = trials.views[0].job_name
        for suspend, state in ((False, "running"), (True, "queued"), (False, "running")):
            await client.patch(JOBS, node_namespace, job, {"spec": {"suspend": suspend}})
            await eventually(trials, lambda seen, state=state: seen.state == state)  # type: ignore[misc]


def endless_on_two_nodes(run_uid: str) -> TrialRequest:
    device = ExpectedDevice(preset="cpu", vendor="cpu", count=1)
    small = a_request(kind="measure", run_uid=run_uid)
    cluster = small.problem.cluster.model_copy(update={"nodes": 2, "gpus_per_node": 1})
    problem = small.problem.model_copy(update={"cluster": cluster})
    change = {"nodes": 2, "processes_per_node": 1, "device": device, "problem": problem, "steps": 10**6}
    return small.model_copy(update=change)


async def eventually(trials: KubeTrials, wanted: Callable[[TrialObservation], bool]) -> TrialObservation:
    for _ in range(600):
        seen = await trials.observe()
        if seen and wanted(seen[0]):
            return seen[0]
        await asyncio.sleep(0.2)
    raise AssertionError(f"not within two minutes: {seen}")
