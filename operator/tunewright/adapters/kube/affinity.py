"""Which nodes carry an accelerator that a trial may use: by PCI device id, since product names differ between hosts.

Keys as written by AMD's node labeller (github.com/ROCm/k8s-device-plugin, cmd/k8s-node-labeller), the older form with
the value in the key included, and by AMD's cluster validation (github.com/ROCm/gpu-operator, cluster validation
framework). Called by `manifests` and `inventory`, so that both mean the same nodes.
"""

from collections.abc import Collection, Mapping
from typing import Any

from tunewright.adapters.kube.spec.trial import PodSpec

DEVICE_ID_LABEL = "amd.com/gpu.device-id"
BETA_DEVICE_ID_LABEL = "beta.amd.com/gpu.device-id"
PARTITION_LABELS = ("amd.com/gpu.compute-memory-partition", "amd.com/compute-memory-partition")
"""Written on request and on homogeneous nodes only; documentation and code of the labeller differ in the key."""
PARTITIONS = tuple(f"{compute}_{memory}" for compute in ("dpx", "qpx", "cpx") for memory in ("nps1", "nps2", "nps4"))
"""A device that is split like this is not what was modelled: that is spx_nps1, the default."""
VALIDATED_LABEL = "amd.com/cluster-validation-status"
VALIDATION_LABELS = (
    VALIDATED_LABEL,
    "amd.com/gpu-hw-acceptance",
    "amd.com/gpu-mesh-validation",
    "amd.com/nic-health",
    "amd.com/rail-bandwidth",
)
PASSED, FAILED = "passed", "failed"


def node_affinity(
    pod: PodSpec, device_ids: tuple[str, ...], avoided_nodes: Collection[str] = ()
) -> dict[str, Any] | None:
    """Return the affinity that requires one of `device_ids`, whole and not known to be bad, on another node.

    Where nodes are selected by label alone, only nodes to avoid count; without any there is no affinity.
    """
    fields = [{"key": "metadata.name", "operator": "NotIn", "values": [name]} for name in sorted(avoided_nodes)]
    terms = [{"matchExpressions": [device, *_fit(pod)]} for device in _devices(pod, device_ids)]
    if not terms and not fields:
        return None
    if fields:
        terms = [{**term, "matchFields": fields} for term in terms or [{}]]
    return _required(terms)


def on_node(name: str) -> dict[str, Any]:
    """Return the affinity that requires one node."""
    return _required([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}])


def carries_device(node_labels: Mapping[str, str], device_ids: tuple[str, ...]) -> bool:
    """Tell whether a node's labels name one of the devices."""
    named = {node_labels.get(DEVICE_ID_LABEL), node_labels.get(BETA_DEVICE_ID_LABEL)}
    return any(device_id in named or f"{BETA_DEVICE_ID_LABEL}.{device_id}" in node_labels for device_id in device_ids)


def unfit_label(node_labels: Mapping[str, str], pod: PodSpec) -> str:
    """Return the label, as key=value, for which `node_affinity` shuts a node out; empty when there is none."""
    for key in PARTITION_LABELS:
        if node_labels.get(key) in PARTITIONS:
            return f"{key}={node_labels[key]}"
    for key in VALIDATION_LABELS:
        if node_labels.get(key) == FAILED:
            return f"{key}={FAILED}"
    if pod.require_validated and node_labels.get(VALIDATED_LABEL) != PASSED:
        return f"{VALIDATED_LABEL}={node_labels.get(VALIDATED_LABEL, '')}"
    return ""


def _devices(pod: PodSpec, device_ids: tuple[str, ...]) -> list[dict[str, Any]]:
    if pod.node_selection != "DeviceID" or not device_ids:
        return []
    return [
        _expression(DEVICE_ID_LABEL, "In", device_ids),
        _expression(BETA_DEVICE_ID_LABEL, "In", device_ids),
        *(_expression(f"{BETA_DEVICE_ID_LABEL}.{device_id}", "Exists") for device_id in device_ids),
    ]


def _fit(pod: PodSpec) -> list[dict[str, Any]]:
    """A node without these labels is fit: most clusters have none."""
    validated = [_expression(VALIDATED_LABEL, "In", (PASSED,))] if pod.require_validated else []
    return [
        *(_expression(key, "NotIn", PARTITIONS) for key in PARTITION_LABELS),
        *(_expression(key, "NotIn", (FAILED,)) for key in VALIDATION_LABELS),
        *validated,
    ]


def _required(terms: list[dict[str, Any]]) -> dict[str, Any]:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def _expression(key: str, operator: str, values: tuple[str, ...] = ()) -> dict[str, Any]:
    expression: dict[str, Any] = {"key": key, "operator": operator}
    if values:
        expression["values"] = list(values)
    return expression
