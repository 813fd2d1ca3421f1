"""Configuration and command line of the kubelet and kube-proxy, as pure functions. Called by `node.py`."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.cluster.network import POD_CIDR


@dataclass(frozen=True)
class KubeletPlace:
    """Where one kubelet lives and listens."""

    folder: Path
    name: str
    address: str
    port: int
    health_port: int


def kubelet_configuration(at: KubeletPlace, runtime: Path, client_certificate: Path, dns: bool) -> dict[str, Any]:
    """Return the KubeletConfiguration: the API server alone may talk to it, and nothing is evicted."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": at.address,
        "port": at.port,
        "healthzPort": at.health_port,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": False},
            "x509": {"clientCAFile": str(client_certificate)},
        },
        "authorization": {"mode": "AlwaysAllow"},
        "containerRuntimeEndpoint": f"unix://{runtime}",
        "podLogsDir": str(at.folder / "pod-logs"),
        "volumePluginDir": str(at.folder / "volume-plugins"),
        "failCgroupV1": False,
        "failSwapOn": False,
        "cgroupDriver": "cgroupfs",
        "enforceNodeAllocatable": [],
        "localStorageCapacityIsolation": False,
        # A nearly full disk of the machine that runs the tests is no reason to evict their Pods.
        "evictionHard": {"nodefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.available": "0%"},
        "imageGCHighThresholdPercent": 100,
        "clusterDomain": "cluster.local",
        **({"clusterDNS": [at.address]} if dns else {}),
    }


def kubelet_flags(
    at: KubeletPlace, configuration: dict[str, Any], kubeconfig: Path, labels: dict[str, str]
) -> list[str]:
    """Write the configuration and return the command line."""
    file = at.folder / "kubelet.json"
    file.write_text(json.dumps(configuration))
    return [
        f"--config={file}",
        f"--kubeconfig={kubeconfig}",
        f"--root-dir={at.folder / 'kubelet'}",
        f"--cert-dir={at.folder / 'certificates'}",
        f"--hostname-override={at.name}",
        f"--node-ip={at.address}",
        "--node-labels=" + ",".join(f"{key}={value}" for key, value in labels.items()),
    ]


def proxy_flags(name: str, kubeconfig: Path, health_port: int, metrics_port: int) -> list[str]:
    """Return kube-proxy's command line; connection-tracking limits belong to the host and are left alone."""
    return [
        f"--kubeconfig={kubeconfig}",
        f"--hostname-override={name}",
        f"--cluster-cidr={POD_CIDR}",
        "--proxy-mode=iptables",
        f"--healthz-bind-address=127.0.0.1:{health_port}",
        f"--metrics-bind-address=127.0.0.1:{metrics_port}",
        "--conntrack-max-per-core=0",
        "--conntrack-tcp-timeout-established=0s",
        "--conntrack-tcp-timeout-close-wait=0s",
    ]
