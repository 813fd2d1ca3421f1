"""Faults that say nothing about a configuration: another node, a word about what is missing, an end."""

from typing import Any

import pytest

from tests.support.cluster.cluster import Cluster
from tests.support.operator_process import OperatorProcess
from tests.support.operator_runs import condition, gpu_node, is_finished
from tests.support.operator_scene import Gate, Scene, is_so
from tests.support.stand_in_kubelet import answer
from tunewright.adapters.kube.client import JOBS
from tunewright.trial_protocol.codec import encode_report
from tunewright.trial_protocol.report import TrialReport
from tunewright.trial_protocol.request import TrialRequest

pytestmark = pytest.mark.usefixtures("crd")

Document = dict[str, Any]
SHORT: Document = {"budget": {"maxTrials": 3}, "validation": {"topK": 1, "steps": 5, "repeats": 1}}


def fault_of_node(request: TrialRequest) -> str:
    return encode_report(TrialReport(identity=request.identity, failure="RcclFailure", message="no link"))


def failing_once(request: TrialRequest) -> str | None:
    is_first = (request.identity.trial, request.identity.attempt) == ("t0001", 1)
    return fault_of_node(request) if is_first else answer(request)


async def test_a_retry_goes_to_another_node(control_plane: Cluster, namespace: str, operator: OperatorProcess) -> None:
    async with Scene(control_plane, namespace, operator, failing_once) as here:
        async with gpu_node(here.client, f"{namespace}-b"):
            here.apply(**SHORT)
            status = await here.until(is_finished)
        assert status["state"] == "Succeeded"
        attempts = sorted(job for job in here.kubelet.nodes if job.startswith("tiny-t0001-"))
        first, second = (here.kubelet.nodes[job] for job in attempts)
    assert first != second
    assert status["trials"]["failed"] == 0


async def test_with_one_node_a_retry_goes_there_again(
    control_plane: Cluster, namespace: str, operator: OperatorProcess
) -> None:
    async with Scene(control_plane, namespace, operator, failing_once) as here:
        here.apply(**SHORT)
        status = await here.until(is_finished)
    assert status["state"] == "Succeeded"
    assert len(set(here.kubelet.nodes.values())) == 1


async def test_a_cluster_that_always_fails_ends_the_run_before_its_budget(
    control_plane: Cluster, namespace: str, operator: OperatorProcess
) -> None:
    async with Scene(control_plane, namespace, operator, fault_of_node) as here:
        here.apply(budget={"maxTrials": 30, "maxFailedTrials": 30})
        status = await here.until(is_finished)
        jobs = await here.client.list(JOBS, namespace)
    assert status["state"] == "Failed"
    assert "in a row ended with RcclFailure: no link" in condition(status, "Finished")["message"]
    assert len(jobs) == 4, "three attempts of one trial, and one of another"


def priority_class(name: str, value: int) -> Document:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }


async def test_a_trial_that_makes_room_for_production_is_preempted_and_runs_again(
    control_plane: Cluster, namespace: str, operator: OperatorProcess
) -> None:
    low, high = f"low-{namespace}", f"high-{namespace}"
    control_plane.kubectl.apply(priority_class(low, 10), priority_class(high, 1000))
    gate = Gate()
    async with Scene(control_plane, namespace, operator, gate) as here:
        here.apply(**SHORT, pod={"priorityClassName": low})
        await here.until_running(1)
        control_plane.kubectl.apply(production(high), namespace=namespace)
        await here.until(lambda status: "Preempted" in [trial["phase"] for trial in status.get("recentTrials", ())])

        async def production_has_the_node() -> bool:
            return bool(control_plane.kubectl.get("pod", "production", namespace=namespace)["spec"].get("nodeName"))

        await is_so(production_has_the_node)
        control_plane.kubectl("delete", "pod", "production", "-n", namespace, "--force", "--grace-period=0")
        gate.is_open = True
        status = await here.until(is_finished)
    assert (status["state"], status["trials"]["failed"]) == ("Succeeded", 0)


def production(priority: str) -> Document:
    gpus = {"amd.com/gpu": "8"}
    container = {"name": "train", "image": "train", "resources": {"limits": gpus, "requests": gpus}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "production"},
        "spec": {"priorityClassName": priority, "containers": [container], "tolerations": [{"operator": "Exists"}]},
    }


async def test_a_quota_that_refuses_pods_is_told_while_the_trial_waits(
    control_plane: Cluster, namespace: str, operator: OperatorProcess
) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "gpus"},
        "spec": {"hard": {"requests.amd.com/gpu": "4"}},
    }
    control_plane.kubectl.apply(quota, namespace=namespace)

    async def quota_is_known() -> bool:
        return "hard" in control_plane.kubectl.get("resourcequota", "gpus", namespace=namespace).get("status", {})

    await is_so(quota_is_known)
    gate = Gate()
    async with Scene(control_plane, namespace, operator, gate) as here:
        here.apply(**SHORT)
        full = await here.until(lambda status: condition(status, "CapacityAvailable")["status"] == "False")
        capacity = condition(full, "CapacityAvailable")
        assert capacity["reason"] == "QuotaExceeded"
        assert "requested: requests.amd.com/gpu=8" in capacity["message"]
        control_plane.kubectl("delete", "resourcequota", "gpus", "-n", namespace)
        status = await here.until(lambda status: condition(status, "CapacityAvailable")["status"] == "True")
        assert condition(status, "CapacityAvailable")["message"].startswith("t0001 runs on gpu-")
        gate.is_open = True
        await here.until(is_finished)
