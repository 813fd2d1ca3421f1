"""etcd, API server, controller manager and scheduler from one binary: a bare control plane, no root needed.

Started by `resolver.py` for the cluster tests; `Node` joins one as root. It listens where a node can reach it from
the start, since whether a test asks for a node is known only later; its admin token is random.
"""

import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from tests.support.cluster.binaries import ensure_kubernetes_binary
from tests.support.cluster.component_flags import (
    Endpoints,
    api_server_flags,
    audit_flags,
    controller_manager_flags,
    etcd_flags,
    scheduler_flags,
)
from tests.support.cluster.credentials import api_server_ready, make_credentials, service_account_kubeconfig
from tests.support.cluster.host_cleanup import sweep
from tests.support.cluster.kubeconfig import write_kubeconfig
from tests.support.cluster.kubectl import Kubectl
from tests.support.cluster.ports import free_ports, node_address
from tests.support.cluster.processes import Processes
from tests.support.cluster.waiting import wait_until
from tests.support.cluster.workspace import Workspace


class ControlPlane:
    """A Kubernetes without nodes, ready when the `with` block begins and gone when it ends."""

    url: str
    token: str
    kubeconfig: Path
    kubectl: Kubectl
    processes: Processes

    def __init__(self, audit: bool = False, api_server_args: Sequence[str] = ()) -> None:
        self._audit = audit
        self._extra = list(api_server_args)

    def start(self) -> "ControlPlane":
        """Start all components and wait until a Pod could be created."""
        self._binary = ensure_kubernetes_binary()
        sweep()
        self.workspace = Workspace.create()
        self.processes = Processes(self.workspace.make("logs"), os.environ)
        try:
            self._start_components()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End the processes, without a grace that nothing in a deleted folder needs, and delete the folder."""
        self.processes.kill_all()
        self.workspace.remove()

    def __enter__(self) -> "ControlPlane":
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def node_address(self) -> str | None:
        """Return the address at which a node and its Pods reach the API server."""
        return self.endpoints.advertised

    @property
    def audit_log(self) -> Path:
        """Return the file with one JSON line for each request (only with `audit=True`)."""
        return self.workspace.folder / "audit.log"

    def restart_api_server(self) -> None:
        """Start the API server again, as after a crash, and wait until it answers."""
        self.processes.restart("kube-apiserver")
        self.wait_ready()

    def wait_ready(self) -> None:
        """Wait until the API server says that it is ready, unless a component has died."""
        authority = self.workspace.folder / "certificates" / "apiserver.crt"

        def ready() -> bool:
            self.processes.check_alive()
            return api_server_ready(self.url, authority, self.token)

        wait_until(ready, "the API server is ready")

    def service_account_kubeconfig(self, namespace: str, name: str) -> Path:
        """Return a kubeconfig that acts as a service account."""
        file = self.workspace.make("accounts") / f"{namespace}-{name}.kubeconfig"
        return service_account_kubeconfig(self.kubectl, namespace, name, file)

    def _start_components(self) -> None:
        folder = self.workspace.folder
        self.token = secrets.token_hex(16)
        etcd, etcd_peer, api = free_ports(3)
        self.endpoints = Endpoints(etcd, etcd_peer, api, node_address())
        self.url = self.endpoints.url
        self._component("etcd", etcd_flags(folder / "etcd", self.endpoints))
        make_credentials(folder, self.token)
        audit = audit_flags(folder) if self._audit else []
        self._component("kube-apiserver", [*api_server_flags(folder, self.endpoints), *audit, *self._extra])
        self.wait_ready()
        authority = (folder / "certificates" / "apiserver.crt").read_bytes()
        self.kubeconfig = write_kubeconfig(folder / "kubeconfig", self.url, authority, self.token)
        self.kubectl = Kubectl(self.kubeconfig, folder / "kubectl-cache")
        self._component("kube-controller-manager", controller_manager_flags(folder, self.kubeconfig))
        self._component("kube-scheduler", scheduler_flags(self.kubeconfig))
        self._wait_for_service_account()

    def _component(self, name: str, flags: list[str]) -> None:
        self.processes.start(name, self._binary, name, *flags)

    def _wait_for_service_account(self) -> None:
        """No Pod can be created before its namespace's service account is there."""

        def there() -> str:
            self.processes.check_alive()
            return self.kubectl("get", "serviceaccount", "default", "--ignore-not-found", "--output=name")

        wait_until(there, "the service account default exists")
