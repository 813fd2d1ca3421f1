"""The command line of each control-plane component, as pure functions of the folder and the ports.

Called by `control_plane.py`. Every flag that is not plain plumbing says why it is there.
"""

from dataclasses import dataclass
from pathlib import Path

SERVICE_CIDR = "10.96.0.0/16"
# The default of 20 calls a second holds back the controllers' start by 5 s, and every test with many objects.
UNTHROTTLED = ["--kube-api-qps=2000", "--kube-api-burst=4000"]


@dataclass(frozen=True)
class Endpoints:
    """Where the components of one control plane listen; `advertised` is None on a machine without an address."""

    etcd: int
    etcd_peer: int
    api: int
    advertised: str | None

    @property
    def url(self) -> str:
        """Return the API server's address for clients on this machine, a name in its certificate."""
        return f"https://localhost:{self.api}" if self.advertised else f"https://127.0.0.1:{self.api}"


def etcd_flags(data: Path, at: Endpoints) -> list[str]:
    """Keep etcd on the loopback and let it skip fsync: nothing here outlives a power cut anyway."""
    client, peer = f"http://127.0.0.1:{at.etcd}", f"http://127.0.0.1:{at.etcd_peer}"
    return [
        f"--data-dir={data}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",
        "--log-level=error",
    ]


def api_server_flags(folder: Path, at: Endpoints) -> list[str]:
    """Serve with RBAC, admit the admin by token, and reach kubelets by their address with a client certificate."""
    bind = "0.0.0.0" if at.advertised else "127.0.0.1"
    return [
        f"--etcd-servers=http://127.0.0.1:{at.etcd}",
        f"--cert-dir={folder / 'certificates'}",
        f"--secure-port={at.api}",
        f"--bind-address={bind}",
        *([f"--advertise-address={at.advertised}"] if at.advertised else []),
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={folder / 'key.pem'}",
        f"--service-account-signing-key-file={folder / 'key.pem'}",
        f"--token-auth-file={folder / 'tokens.csv'}",
        "--authorization-mode=RBAC",
        f"--service-cluster-ip-range={SERVICE_CIDR}",
        "--allow-privileged=true",
        "--kubelet-preferred-address-types=InternalIP",  # without it `kubectl logs` looks for a host called node1
        f"--kubelet-client-certificate={folder / 'client.pem'}",
        f"--kubelet-client-key={folder / 'key.pem'}",
    ]


def audit_flags(folder: Path) -> list[str]:
    """Write one line for each request, with who asked what, but no bodies."""
    policy = folder / "audit-policy.json"
    policy.write_text(
        '{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],'
        ' "rules": [{"level": "Metadata"}]}'
    )
    return [f"--audit-policy-file={policy}", f"--audit-log-path={folder / 'audit.log'}"]


def controller_manager_flags(folder: Path, kubeconfig: Path) -> list[str]:
    """Run each controller as its own service account, so that their rights are the real ones."""
    return [
        f"--kubeconfig={kubeconfig}",
        "--use-service-account-credentials",
        "--leader-elect=false",
        "--secure-port=0",  # nobody asks it, and a second cluster on this machine would want the same port
        f"--service-account-private-key-file={folder / 'key.pem'}",
        f"--root-ca-file={folder / 'certificates' / 'apiserver.crt'}",
        f"--flex-volume-plugin-dir={folder / 'volume-plugins'}",  # else it makes one in /usr/libexec
        "--concurrent-job-syncs=20",
        *UNTHROTTLED,
    ]


def scheduler_flags(kubeconfig: Path) -> list[str]:
    """Run the scheduler alone and without a port of its own."""
    return [f"--kubeconfig={kubeconfig}", "--leader-elect=false", "--secure-port=0", *UNTHROTTLED]
