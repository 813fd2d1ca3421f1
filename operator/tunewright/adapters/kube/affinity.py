"""Which nodes carry an accelerator: by PCI device id, since product names differ between hosts.

Keys as written by AMD's node labeller (github.com/ROCm/k8s-device-plugin, cmd/k8s-node-labeller), the older form with
the value in the key included. Called by `manifests` and `inventory`, so that both mean the same nodes.
"""

from collections.abc import Mapping
from typing import Any

from tunewright.adapters.kube.spec.trial import PodSpec

DEVICE_ID_LABEL = "amd.com/gpu.device-id"
BETA_DEVICE_ID_LABEL = "beta.amd.com/gpu.device-id"


def node_affinity(pod: PodSpec, device_ids: tuple[str, ...]) -> dict[str, Any] | None:
    """Return the affinity that requires one of `device_ids`, or None where nodes are selected by label alone."""
    if pod.node_selection != "DeviceID" or not device_ids:
        return None
    terms = [
        _term(DEVICE_ID_LABEL, "In", device_ids),
        _term(BETA_DEVICE_ID_LABEL, "In", device_ids),
        *(_term(f"{BETA_DEVICE_ID_LABEL}.{device_id}", "Exists") for device_id in device_ids),
    ]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def carries_device(node_labels: Mapping[str, str], device_ids: tuple[str, ...]) -> bool:
    """Tell whether a node's labels satisfy `node_affinity`."""
    named = {node_labels.get(DEVICE_ID_LABEL), node_labels.get(BETA_DEVICE_ID_LABEL)}
    return any(device_id in named or f"{BETA_DEVICE_ID_LABEL}.{device_id}" in node_labels for device_id in device_ids)


def _term(key: str, operator: str, values: tuple[str, ...] = ()) -> dict[str, Any]:
    expression: dict[str, Any] = {"key": key, "operator": operator}
    if values:
        expression["values"] = list(values)
    return {"matchExpressions": [expression]}
