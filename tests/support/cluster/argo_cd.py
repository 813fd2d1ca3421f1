"""A real Argo CD beside a control plane: repo-server and application controller as processes, with their redis.

Used by its tests, on a control plane of their own, since its controller looks at every object. API server, user
interface, single sign-on and notifications are left out: kubectl reads and writes Applications.
"""

import os
import socket
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

from tests.support.cluster.binaries import argo_cd_folder, ensure_argo_cd_binary, ensure_go_tool
from tests.support.cluster.commands import need_program
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.errors import KubectlFailed
from tests.support.cluster.ports import free_ports
from tests.support.cluster.processes import Processes
from tests.support.cluster.waiting import wait_until

Document = dict[str, Any]

NAMESPACE = "argocd"
REPO_SERVER, CONTROLLER = "argocd-repo-server", "argocd-application-controller"
_PART_OF = {"app.kubernetes.io/part-of": "argocd"}
_CRDS = ("application-crd.yaml", "appproject-crd.yaml")
_EMPTY_CONFIG_MAPS = ("argocd-rbac-cm", "argocd-gpg-keys-cm", "argocd-tls-certs-cm", "argocd-ssh-known-hosts-cm")
# Git is looked at after seconds instead of minutes, and a hand edit is healed at once.
_IMPATIENT_REPO_SERVER = ["--revision-cache-expiration=1s"]
_IMPATIENT_CONTROLLER = ["--app-resync=3", "--app-resync-jitter=0", "--self-heal-timeout-seconds=1"]


class ArgoCD:
    """Argo CD for one control plane; `settings` are the data of its ConfigMap argocd-cm."""

    def __init__(self, cluster: ControlPlane, settings: Mapping[str, str]) -> None:
        self._cluster = cluster
        self._settings = settings
        self._folder = cluster.workspace.make("argo-cd")
        self._processes = Processes(cluster.workspace.make("logs"), self._environment())

    def start(self) -> "ArgoCD":
        """Create its objects, start its processes and return when they answer."""
        binary = ensure_argo_cd_binary()
        for role in (REPO_SERVER, CONTROLLER):
            (self._folder / role).symlink_to(binary)  # the program is what it is called
        self._create_objects()
        redis, repo_server, repo_metrics, controller_metrics = free_ports(4)
        self._start_redis(redis)
        common = [f"--redis=127.0.0.1:{redis}", "--loglevel=warn"]
        self._processes.start(
            REPO_SERVER,
            self._folder / REPO_SERVER,
            *(*common, "--disable-tls", "--address=127.0.0.1", f"--port={repo_server}"),
            *("--metrics-address=127.0.0.1", f"--metrics-port={repo_metrics}"),
            *_IMPATIENT_REPO_SERVER,
        )
        self._processes.start(
            CONTROLLER,
            self._folder / CONTROLLER,
            *(*common, f"--kubeconfig={self._cluster.kubeconfig}", f"--namespace={NAMESPACE}"),
            *(f"--repo-server=127.0.0.1:{repo_server}", "--repo-server-plaintext"),
            *(f"--metrics-port={controller_metrics}", "--persist-resource-health"),
            *_IMPATIENT_CONTROLLER,
        )
        for port in (repo_metrics, controller_metrics):
            wait_until(lambda port=port: self._is_healthy(port), "Argo CD answers")  # type: ignore[misc]
        return self

    def stop(self) -> None:
        """End its processes."""
        self._processes.kill_all()

    def log(self) -> str:
        """Return the end of what its controller said."""
        return self._processes.log_file(CONTROLLER).read_text(errors="replace")[-4000:]

    def _start_redis(self, port: int) -> None:
        program = need_program("redis-server", "install the package redis-server")
        keep_nothing = ["--save", "", "--appendonly", "no", "--dir", str(self._folder)]
        self._processes.start("redis", program, "--bind", "127.0.0.1", "--port", str(port), *keep_nothing)
        wait_until(lambda: self._listens(port), "redis listens")

    def _create_objects(self) -> None:
        kubectl = self._cluster.kubectl
        kubectl("create", "namespace", NAMESPACE)
        crds = argo_cd_folder() / "manifests" / "crds"
        kubectl("apply", "--server-side", *(f"--filename={crds / name}" for name in _CRDS))
        wait_until(self._are_served, "Applications and AppProjects are served")
        kubectl.apply(*_objects(self._settings), namespace=NAMESPACE)

    def _are_served(self) -> bool:
        try:
            self._cluster.kubectl("get", "applications.argoproj.io,appprojects.argoproj.io", "--all-namespaces")
        except KubectlFailed:
            return False
        return True

    def _environment(self) -> dict[str, str]:
        """Everything that Argo CD keeps goes into our folder; the cluster that it calls its own is ours."""

        def make(name: str) -> str:
            return str(self._cluster.workspace.make("argo-cd", name))

        return {
            **os.environ,
            "PATH": f"{ensure_go_tool('helm').parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": make("home"),
            "TMPDIR": make("tmp"),
            "KUBECONFIG": str(self._cluster.kubeconfig),
            "ARGOCD_FAKE_IN_CLUSTER": "true",
            "ARGOCD_GPG_ENABLED": "false",
            "ARGOCD_TLS_DATA_PATH": make("tls"),
            "ARGOCD_SSH_DATA_PATH": make("ssh"),
            "ARGOCD_APP_CONF_PATH": make("app-conf"),
            "ARGOCD_PLUGINSOCKFILEPATH": make("plugins"),
            "ARGOCD_ASK_PASS_SOCK": str(self._folder / "askpass.sock"),
        }

    def _listens(self, port: int) -> bool:
        self._processes.check_alive()
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", port)) == 0

    def _is_healthy(self, port: int) -> bool:
        self._processes.check_alive()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False


def _objects(settings: Mapping[str, str]) -> list[Document]:
    """Return the settings, and the project that lets Applications do everything."""
    config_maps = {"argocd-cm": dict(settings)} | {name: {} for name in _EMPTY_CONFIG_MAPS}
    return [
        *(_labelled("ConfigMap", name, {"data": data}) for name, data in config_maps.items()),
        _labelled("Secret", "argocd-secret", {"stringData": {"server.secretkey": "for tests"}}),
        {
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "AppProject",
            "metadata": {"name": "default"},
            "spec": {
                "sourceRepos": ["*"],
                "destinations": [{"namespace": "*", "server": "*"}],
                "clusterResourceWhitelist": [{"group": "*", "kind": "*"}],
            },
        },
    ]


def _labelled(kind: str, name: str, content: Document) -> Document:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "labels": dict(_PART_OF)}, **content}
