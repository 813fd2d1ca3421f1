"""Which nodes could run a trial now. Called by the controller before the first trial; `judge_capacity` is pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tunewright.adapters.kube.affinity import carries_device, unfit_label
from tunewright.adapters.kube.client import NODES, PODS, Document, KubeClient
from tunewright.adapters.kube.manifests import PodOptions
from tunewright.adapters.kube.spec.trial import TolerationSpec
from tunewright.errors import Forbidden

PREWARMING = "Prewarming"
"""Reason of CapacityAvailable while nodes are there and pull the image."""


@dataclass(frozen=True)
class Capacity:
    """The answer to "is there room?", with the reason and message of the condition CapacityAvailable."""

    available: bool | None
    reason: str
    message: str


async def find_capacity(
    client: KubeClient, options: PodOptions, nodes_needed: int, nodes_of_validation: int = 0
) -> Capacity:
    """Look at nodes and their Pods; without permission to do so, say that nothing was checked."""
    try:
        nodes = await client.list(NODES)
        pods = await client.list(PODS, fields="status.phase!=Succeeded,status.phase!=Failed")
    except Forbidden:
        return Capacity(None, "NotChecked", "the operator may not list nodes and Pods")
    return judge_capacity(nodes, pods, options, nodes_needed, nodes_of_validation)


def judge_capacity(
    nodes: Sequence[Document],
    pods: Iterable[Document],
    options: PodOptions,
    nodes_needed: int,
    nodes_of_validation: int = 0,
) -> Capacity:
    """Count whole free nodes; where they are too few, name the first thing that is missing.

    `nodes_of_validation` need not be free yet, only there: a run must not end without what it is for.
    """
    resource, gpus = options.pod.resource_name, options.gpus_per_node
    suitable = suitable_nodes(nodes, options)
    open_nodes = [node for node in suitable if _is_open(node, options.pod.resource_name, options.pod.tolerations)]
    used = _used_by_node(pods, resource)
    free = {_name(node): _allocatable(node, resource) - used.get(_name(node), 0) for node in open_nodes}
    slots = sum(max(0, amount) // gpus for amount in free.values())
    ids = " or ".join(options.pci_device_ids) or "any"
    there = sum(_allocatable(node, resource) // gpus for node in suitable)
    if slots >= nodes_needed and there < nodes_of_validation:
        wanted = f"validation needs {nodes_of_validation} node(s) with {gpus} {resource}, {there} are there"
        remedy = "add nodes, or let the run begin without them by spec.pod.capacityCheck Warn"
        return Capacity(False, "NotEnoughNodes", f"{wanted}, device id {ids}: {remedy}")
    if slots >= nodes_needed:
        return Capacity(True, "NodesFound", f"{slots} node(s) with {gpus} free {resource}, device id {ids}")
    wanted = f"{nodes_needed} node(s) with {gpus} free {resource} are needed, {slots} found"
    return Capacity(False, "NotEnoughNodes", f"{wanted}: {_missing(nodes, suitable, open_nodes, free, options)}")


def _missing(
    nodes: Sequence[Document],
    suitable: Sequence[Document],
    open_nodes: Sequence[Document],
    free: Mapping[str, int],
    options: PodOptions,
) -> str:
    if not suitable:
        unfit = _unfit(nodes, options)
        return f"none of {len(nodes)} node(s) {_requirement(options)}" + (f"; shut out: {unfit}" if unfit else "")
    if not open_nodes:
        names = ", ".join(sorted(_name(node) for node in suitable))
        return f"{names}: not ready, cordoned or tainted beyond the run's tolerations"
    return "free per node: " + ", ".join(f"{name} {amount}" for name, amount in sorted(free.items())[:8])


def suitable_nodes(nodes: Sequence[Document], options: PodOptions) -> list[Document]:
    """Return the nodes that trials may run on, whatever runs there now."""
    return [node for node in nodes if _is_suitable(node, options)]


async def has_other_nodes(
    client: KubeClient, options: PodOptions, avoided: Collection[str], nodes_needed: int = 1
) -> bool:
    """Tell whether a trial could run on nodes that are none of `avoided`; no, where nobody may look."""
    others = [node for node in await _open_nodes(client, options) if _name(node) not in avoided]
    resource = options.pod.resource_name
    return sum(_allocatable(node, resource) // options.gpus_per_node for node in others) >= nodes_needed


async def open_nodes(client: KubeClient, options: PodOptions) -> list[str]:
    """Return the names of the nodes that would take a trial if nothing ran there; none where nobody may look."""
    return sorted(_name(node) for node in await _open_nodes(client, options))


async def _open_nodes(client: KubeClient, options: PodOptions) -> list[Document]:
    try:
        nodes = await client.list(NODES)
    except Forbidden:
        return []
    resource, tolerations = options.pod.resource_name, options.pod.tolerations
    return [node for node in suitable_nodes(nodes, options) if _is_open(node, resource, tolerations)]


def _unfit(nodes: Sequence[Document], options: PodOptions) -> str:
    """Name the nodes that have the device, and the label for which they are not used."""
    found = []
    for node in nodes:
        node_labels = node["metadata"].get("labels") or {}
        label = unfit_label(node_labels, options.pod)
        if _selects_devices(options) and label and carries_device(node_labels, options.pci_device_ids):
            found.append(f"{_name(node)} {label}")
    return ", ".join(sorted(found)[:8])


def _selects_devices(options: PodOptions) -> bool:
    return options.pod.node_selection == "DeviceID" and bool(options.pci_device_ids)


def _requirement(options: PodOptions) -> str:
    parts = []
    if _selects_devices(options):
        parts.append(f"is labelled amd.com/gpu.device-id {' or '.join(options.pci_device_ids)}")
    if options.pod.node_selector:
        parts.append("matches pod.nodeSelector " + ", ".join(f"{k}={v}" for k, v in options.pod.node_selector.items()))
    parts.append(f"offers {options.pod.resource_name} (is the device plugin running?)")
    return " and ".join(parts)


def _is_suitable(node: Document, options: PodOptions) -> bool:
    node_labels = node["metadata"].get("labels") or {}
    if any(node_labels.get(key) != value for key, value in options.pod.node_selector.items()):
        return False
    if _selects_devices(options) and not carries_device(node_labels, options.pci_device_ids):
        return False
    if _selects_devices(options) and unfit_label(node_labels, options.pod):
        return False
    return _allocatable(node, options.pod.resource_name) > 0


def _is_open(node: Document, resource: str, tolerations: Sequence[TolerationSpec]) -> bool:
    spec = node.get("spec") or {}
    ready = any(
        condition["type"] == "Ready" and condition["status"] == "True"
        for condition in node.get("status", {}).get("conditions") or ()
    )
    taints = [taint for taint in spec.get("taints") or () if taint["effect"] != "PreferNoSchedule"]
    return (
        ready
        and not spec.get("unschedulable")
        and all(taint["key"] == resource or _is_tolerated(taint, tolerations) for taint in taints)
    )


def _is_tolerated(taint: Mapping[str, Any], tolerations: Sequence[TolerationSpec]) -> bool:
    return any(
        toleration.key == taint["key"]
        and toleration.effect in (None, taint["effect"])
        and (toleration.operator == "Exists" or (toleration.value or "") == taint.get("value", ""))
        for toleration in tolerations
    )


def _used_by_node(pods: Iterable[Document], resource: str) -> dict[str, int]:
    used: dict[str, int] = {}
    for pod in pods:
        node = pod["spec"].get("nodeName")
        if node and pod.get("status", {}).get("phase") not in ("Succeeded", "Failed"):
            used[node] = used.get(node, 0) + sum(_requested(c, resource) for c in pod["spec"]["containers"])
    return used


def _requested(container: Document, resource: str) -> int:
    return int((container.get("resources", {}).get("requests") or {}).get(resource, 0))


def _allocatable(node: Document, resource: str) -> int:
    return int((node.get("status", {}).get("allocatable") or {}).get(resource, 0))


def _name(node: Document) -> str:
    return str(node["metadata"]["name"])
