from typing import Any

import pytest

from tests.support.kube_documents import a_node, pod_options
from tunewright.adapters.kube.affinity import carries_device, node_affinity
from tunewright.adapters.kube.inventory import judge_capacity
from tunewright.adapters.kube.spec.trial import PodSpec

MI355X = {"amd.com/gpu.device-id": "75a3"}
PARTITION = "amd.com/gpu.compute-memory-partition"
NIC = "amd.com/nic-health"


def used(node: str, gpus: int, phase: str = "Running") -> dict[str, Any]:
    container = {"resources": {"requests": {"amd.com/gpu": str(gpus)}}}
    return {"spec": {"nodeName": node, "containers": [container]}, "status": {"phase": phase}}


def test_counts_whole_free_nodes() -> None:
    found = judge_capacity([a_node("a"), a_node("b", gpus=16)], [used("a", 1)], pod_options(), 2)
    assert (found.available, found.reason) == (True, "NodesFound")
    assert found.message == "2 node(s) with 8 free amd.com/gpu, device id 75a3 or 75b3"


def test_nodes_of_validation_must_be_there_but_need_not_be_free() -> None:
    nodes = [a_node("a"), a_node("b")]
    busy = [used("b", 8)]
    assert judge_capacity(nodes, busy, pod_options(), 1, nodes_of_validation=2).available
    found = judge_capacity(nodes, busy, pod_options(), 1, nodes_of_validation=3)
    assert (found.available, found.reason) == (False, "NotEnoughNodes")
    assert found.message.startswith("validation needs 3 node(s) with 8 amd.com/gpu, 2 are there, device id 75a3")


def test_finished_pods_use_nothing() -> None:
    assert judge_capacity([a_node()], [used("gpu-1", 8, "Succeeded")], pod_options(), 1).available


@pytest.mark.parametrize(
    ("node", "missing"),
    [
        (a_node(labels={}), "none of 1 node(s) is labelled amd.com/gpu.device-id 75a3 or 75b3"),
        (a_node(gpus=0), "offers amd.com/gpu (is the device plugin running?)"),
        (a_node(unschedulable=True), "gpu-1: not ready, cordoned or tainted"),
        (
            a_node(taints=[{"key": "amd-gpu-unhealthy", "effect": "NoSchedule"}]),
            "gpu-1: not ready, cordoned or tainted",
        ),
        (a_node(gpus=7), "free per node: gpu-1 7"),
        (a_node(labels=MI355X | {PARTITION: "cpx_nps1"}), f"shut out: gpu-1 {PARTITION}=cpx_nps1"),
        (a_node(labels=MI355X | {NIC: "failed"}), f"shut out: gpu-1 {NIC}=failed"),
    ],
    ids=["another-device", "no-plugin", "cordoned", "unhealthy", "too-few-gpus", "partitioned", "failed-validation"],
)
def test_names_what_is_missing(node: dict[str, Any], missing: str) -> None:
    found = judge_capacity([node], [], pod_options(), 1)
    assert (found.available, found.reason) == (False, "NotEnoughNodes")
    assert "1 node(s) with 8 free amd.com/gpu are needed, 0 found" in found.message
    assert missing in found.message


@pytest.mark.parametrize("labels", [{PARTITION: "spx_nps1"}, {NIC: "passed"}])
def test_whole_devices_and_passed_checks_are_fine(labels: dict[str, str]) -> None:
    assert judge_capacity([a_node(labels=MI355X | labels)], [], pod_options(), 1).available


def test_a_passed_validation_may_be_required() -> None:
    pod = PodSpec.parse({"requireValidated": True})
    passed = a_node(labels=MI355X | {"amd.com/cluster-validation-status": "passed"})
    assert judge_capacity([passed], [], pod_options(pod=pod), 1).available
    missing = judge_capacity([a_node()], [], pod_options(pod=pod), 1)
    assert "shut out: gpu-1 amd.com/cluster-validation-status=" in missing.message


def test_every_alternative_of_the_affinity_shuts_unfit_nodes_out() -> None:
    affinity = node_affinity(PodSpec.parse({"requireValidated": True}), ("75a3",), ["gpu-3"])
    assert affinity is not None
    terms = affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert len(terms) == 3
    for term in terms:
        assert term["matchFields"] == [{"key": "metadata.name", "operator": "NotIn", "values": ["gpu-3"]}]
        said = {(item["key"], item["operator"]) for item in term["matchExpressions"]}
        assert {(PARTITION, "NotIn"), (NIC, "NotIn"), ("amd.com/cluster-validation-status", "In")} <= said
        assert all("spx_nps1" not in item.get("values", ()) for item in term["matchExpressions"])


def test_the_taint_of_gpu_nodes_is_tolerated() -> None:
    node = a_node(taints=[{"key": "amd.com/gpu", "value": "present", "effect": "NoSchedule"}])
    assert judge_capacity([node], [], pod_options(), 1).available


def test_the_runs_own_tolerations_and_selector_count() -> None:
    pod = PodSpec.parse(
        {
            "tolerations": [{"key": "dedicated", "value": "ml"}],
            "nodeSelector": {"pool": "mi"},
            "nodeSelection": "SelectorOnly",
        }
    )
    node = a_node(labels={"pool": "mi"}, taints=[{"key": "dedicated", "value": "ml", "effect": "NoSchedule"}])
    assert judge_capacity([node], [], pod_options(pod=pod), 1).available
    assert not judge_capacity([a_node(labels={})], [], pod_options(pod=pod), 1).available


@pytest.mark.parametrize(
    "labels",
    [
        {"amd.com/gpu.device-id": "75a3"},
        {"beta.amd.com/gpu.device-id": "75b3"},
        {"beta.amd.com/gpu.device-id.75a3": "8"},
    ],
)
def test_every_form_of_the_device_label_counts(labels: dict[str, str]) -> None:
    assert carries_device(labels, ("75a3", "75b3"))
    assert not carries_device(labels, ("74a1",))


def test_selector_only_and_unlabelled_devices_need_no_affinity() -> None:
    assert node_affinity(PodSpec.parse({"nodeSelection": "SelectorOnly"}), ("75a3",)) is None
    assert node_affinity(PodSpec(), ()) is None


def test_a_node_to_avoid_needs_an_affinity_where_nothing_else_does() -> None:
    affinity = node_affinity(PodSpec.parse({"nodeSelection": "SelectorOnly"}), ("75a3",), ["gpu-1"])
    assert affinity is not None
    (term,) = affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term == {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["gpu-1"]}]}
