"""A real kubelet with containerd and kube-proxy, joined to a bare control plane: needs root and Linux.

Started by the `node` fixture. Its stop leaves nothing on the host, and so does its death (see `watchdog.py`).
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from tests.support.cluster.binaries import ensure_go_tool, ensure_kubernetes_binary
from tests.support.cluster.containerd import Containerd
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.dns import dns_flags
from tests.support.cluster.host_cleanup import clean
from tests.support.cluster.host_state import HostState
from tests.support.cluster.image_build import ImageBuilder
from tests.support.cluster.images import BASE_IMAGE, PAUSE_IMAGE, base_archive, pause_archive
from tests.support.cluster.kubelet import KubeletPlace, kubelet_configuration, kubelet_flags, proxy_flags
from tests.support.cluster.network import BRIDGE, write_cni_configuration
from tests.support.cluster.node_lock import acquire_node_lock
from tests.support.cluster.node_requirements import check_node_requirements
from tests.support.cluster.ports import free_ports
from tests.support.cluster.processes import Processes
from tests.support.cluster.waiting import wait_until
from tests.support.cluster.watchdog import Watchdog
from tests.support.cluster.workspace import Workspace

GPU_LABEL = "amd.com/gpu.device-id"
MI355X = "75a3"


class Node:
    """A node with stand-in GPUs, Ready when the `with` block begins and gone when it ends."""

    def __init__(
        self,
        cluster: ControlPlane,
        gpus: int = 8,
        labels: Mapping[str, str] | None = None,
        dns: bool = False,
        name: str = "node1",
    ) -> None:
        self.cluster = cluster
        self.name = name
        self._gpus = gpus
        self._labels = dict(labels) if labels is not None else {GPU_LABEL: MI355X}
        self._dns = dns
        self._base_imported = False

    def start(self) -> "Node":
        """Start everything and wait until the node is Ready and has its GPUs."""
        self.address = check_node_requirements(self.cluster)
        pause = pause_archive()
        self._machine = acquire_node_lock()
        self.workspace = Workspace.create()
        HostState.take(BRIDGE).note(self.workspace.folder)
        self._watchdog = Watchdog(self.workspace.folder)
        self.processes = Processes(self.workspace.make("logs"), os.environ)
        self.containerd = Containerd(self.workspace.make("containerd"))
        try:
            self._start_processes(pause)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End the node as a crash would, its containers with it, and undo every change to the host."""
        self.processes.stop("kubelet", "kube-proxy", "coredns")
        self.containerd.end_tasks()
        self.processes.kill_all()
        forget = ["node", self.name, "--ignore-not-found", "--wait=false", "--request-timeout=10s"]
        self.cluster.kubectl("delete", *forget, check=False)
        clean(self.workspace.folder)
        self.workspace.remove()
        self._watchdog.dismiss()
        os.close(self._machine)

    def __enter__(self) -> "Node":
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def import_image(self, archive: Path) -> None:
        """Load a docker-archive; Pods use it with `imagePullPolicy: Never` or `IfNotPresent`."""
        self.containerd.import_image(archive)

    def base_image(self) -> str:
        """Return the name of a Debian with Python, loaded at the first call."""
        if not self._base_imported:
            self.import_image(base_archive())
            self._base_imported = True
        return BASE_IMAGE

    def build_image(
        self, dockerfile: Path, context: Path, target: str, build_args: Mapping[str, str] | None = None, tag: str = ""
    ) -> str:
        """Build a Dockerfile's target on the base image, load it, and return its name."""
        name = tag or f"localhost/{target}:test"
        builder = ImageBuilder(self.workspace.make("buildah"))
        self.import_image(builder.build(dockerfile, context, target, build_args or {}, name))
        return name

    def set_gpus(self, count: int) -> None:
        """Give the node this many GPUs; 16 lets two 8-GPU Pods run side by side."""
        paths = [f"/status/{part}/amd.com~1gpu" for part in ("capacity", "allocatable")]
        patch = json.dumps([{"op": "add", "path": path, "value": str(count)} for path in paths])
        self.cluster.kubectl("patch", "node", self.name, "--subresource=status", "--type=json", "--patch", patch)

    def _start_processes(self, pause: Path) -> None:
        cni = write_cni_configuration(self.workspace.make("cni"))
        self.processes.start("containerd", *self.containerd.command(PAUSE_IMAGE, cni))
        self.containerd.wait_ready()
        self.import_image(pause)
        self._start_kubelet()
        self._wait_ready()
        self.set_gpus(self._gpus)

    def _start_kubelet(self) -> None:
        binary, kubeconfig = ensure_kubernetes_binary(), self.cluster.kubeconfig
        port, health, proxy_health, proxy_metrics = free_ports(4)
        folder = self.workspace.folder
        place = KubeletPlace(folder, self.name, self.address, port, health)
        client = self.cluster.workspace.folder / "client.pem"
        configuration = kubelet_configuration(place, self.containerd.socket, client, self._dns)
        kubelet = kubelet_flags(place, configuration, kubeconfig, self._labels)
        self.processes.start("kubelet", binary, "kubelet", *kubelet)
        proxy = proxy_flags(self.name, kubeconfig, proxy_health, proxy_metrics)
        self.processes.start("kube-proxy", binary, "kube-proxy", *proxy)
        if self._dns:
            self.processes.start("coredns", ensure_go_tool("coredns"), *dns_flags(folder, self.address, kubeconfig))

    def _wait_ready(self) -> None:
        status = "--output=jsonpath={.status.conditions[?(@.type=='Ready')].status}"

        def ready() -> bool:
            self.processes.check_alive()
            return self.cluster.kubectl("get", "node", self.name, "--ignore-not-found", status) == "True"

        wait_until(ready, "the node is Ready", every=0.2)
