"""The real Kueue manager with its webhooks, as a process beside a control plane of its own. Used by its tests.

While its webhooks are registered no Job can be created without it: it never joins the session's control plane.
"""

import base64
import json
from pathlib import Path
from typing import Any

import yaml

from tests.support.cluster.binaries import ensure_go_tool, go_module_folder
from tests.support.cluster.commands import need_program, run
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.ports import free_ports
from tests.support.cluster.waiting import wait_until

Document = dict[str, Any]
API = "kueue.x-k8s.io/v1beta2"
NAMESPACE = "kueue-system"
WEBHOOK_NAME = "kueue-webhook-service"
WEBHOOK_SECRET = "kueue-webhook-server-cert"
WATCHED_GROUPS = {"batch", "kueue.x-k8s.io"}
WEBHOOKS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


def start_kueue(cluster: ControlPlane) -> None:
    """Install Kueue's objects and start its manager among the cluster's processes; return when it answers."""
    folder = cluster.workspace.make("kueue")
    webhook_port, health_port = free_ports(2)
    _make_certificates(folder)
    cluster.kubectl("create", "namespace", NAMESPACE)
    cluster.kubectl("create", "secret", "generic", WEBHOOK_SECRET, f"--namespace={NAMESPACE}", *_secret_files(folder))
    objects = {"apiVersion": "v1", "kind": "List", "items": _objects(folder, webhook_port)}
    cluster.kubectl("apply", "--server-side", "--filename", "-", stdin=json.dumps(objects))
    configuration = folder / "kueue.yaml"
    configuration.write_text(yaml.safe_dump(_configuration(folder, webhook_port, health_port)))
    flags = [f"--config={configuration}", f"--kubeconfig={cluster.kubeconfig}", "--zap-log-level=error"]
    # The visibility server would write certificates to /visibility.
    cluster.processes.start("kueue", ensure_go_tool("kueue"), *flags, "--feature-gates=VisibilityOnDemand=false")

    def answers() -> bool:
        cluster.processes.check_alive()
        return cluster.kubectl("create", "-f", "-", "--dry-run=server", stdin=_PROBE, check=False) != ""

    wait_until(answers, "Kueue's webhooks answer", every=0.2)


def queue(cluster: ControlPlane, namespace: str, gpus: int, device_id: str = "75a3") -> None:
    """Give a namespace the LocalQueue `tuning`, with a quota of its own."""
    flavor = {"name": f"mi355x-{namespace}", "resources": [{"name": "amd.com/gpu", "nominalQuota": gpus}]}
    cluster.kubectl.apply(
        {
            "apiVersion": API,
            "kind": "ResourceFlavor",
            "metadata": {"name": flavor["name"]},
            "spec": {"nodeLabels": {"amd.com/gpu.device-id": device_id}},
        },
        {
            "apiVersion": API,
            "kind": "ClusterQueue",
            "metadata": {"name": namespace},
            "spec": {
                "namespaceSelector": {},
                "resourceGroups": [{"coveredResources": ["amd.com/gpu"], "flavors": [flavor]}],
            },
        },
        {
            "apiVersion": API,
            "kind": "LocalQueue",
            "metadata": {"name": "tuning", "namespace": namespace},
            "spec": {"clusterQueue": namespace},
        },
    )


_PROBE = json.dumps(
    {"apiVersion": API, "kind": "ResourceFlavor", "metadata": {"name": "probe"}, "spec": {"nodeLabels": {"a": "b"}}}
)


def _make_certificates(folder: Path) -> None:
    """Make what Kueue's certificate rotator leaves alone: this name in the authority, PKCS#1 keys, a long validity."""
    openssl = need_program("openssl", "install the package openssl")
    names = folder / "names.ext"
    names.write_text(f"subjectAltName=DNS:{WEBHOOK_NAME}.{NAMESPACE}.svc,IP:127.0.0.1\nextendedKeyUsage=serverAuth\n")
    for name in ("ca", "tls"):
        run(openssl, "genrsa", "-traditional", "-out", folder / f"{name}.key", "2048")
    authority = ["-subj", "/O=kueue/CN=kueue-ca", "-addext", "subjectAltName=DNS:kueue-ca", "-days", "3650"]
    run(openssl, "req", "-x509", "-new", "-key", folder / "ca.key", "-out", folder / "ca.crt", *authority)
    subject = ["-subj", f"/CN={WEBHOOK_NAME}.{NAMESPACE}.svc"]
    run(openssl, "req", "-new", "-key", folder / "tls.key", "-out", folder / "tls.csr", *subject)
    signed: list[str | Path] = [
        "-CA",
        folder / "ca.crt",
        "-CAkey",
        folder / "ca.key",
        "-CAcreateserial",
        "-extfile",
        names,
    ]
    request: list[str | Path] = ["-req", "-in", folder / "tls.csr", "-days", "3650", "-out", folder / "tls.crt"]
    run(openssl, "x509", *request, *signed)


def _secret_files(folder: Path) -> list[str]:
    return [f"--from-file={folder / name}" for name in ("ca.crt", "ca.key", "tls.crt", "tls.key")]


def _objects(folder: Path, port: int) -> list[Document]:
    """Return Kueue's CRDs and webhooks, which call the manager on this machine; the rest is for its Pod."""
    chart = go_module_folder("kueue", "sigs.k8s.io/kueue") / "charts" / "kueue"
    text = run(ensure_go_tool("helm"), "template", "kueue", chart, "--namespace", NAMESPACE)
    authority = base64.b64encode((folder / "ca.crt").read_bytes()).decode()
    kept = []
    for document in yaml.safe_load_all(text):
        if document and document["kind"] == "CustomResourceDefinition":
            conversion = document["spec"].get("conversion", {}).get("webhook")
            if conversion:
                conversion["clientConfig"] = _client(port, "/convert", authority)
            kept.append(document)
        elif document and document["kind"] in WEBHOOKS:
            hooks = [hook for hook in document["webhooks"] if _is_watched(hook)]
            for hook in hooks:
                hook["clientConfig"] = _client(port, hook["clientConfig"]["service"]["path"], authority)
            kept.append({**document, "webhooks": hooks})
    return kept


def _is_watched(hook: Document) -> bool:
    return all(WATCHED_GROUPS.issuperset(rule["apiGroups"]) for rule in hook["rules"])


def _client(port: int, path: str, authority: str) -> Document:
    return {"url": f"https://127.0.0.1:{port}{path}", "caBundle": authority}


def _configuration(folder: Path, webhook_port: int, health_port: int) -> Document:
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "namespace": NAMESPACE,
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health_port}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": "127.0.0.1", "port": webhook_port, "certDir": str(folder)},
        "clientConnection": {"qps": 1000, "burst": 2000},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {
            "enable": True,
            "webhookServiceName": WEBHOOK_NAME,
            "webhookSecretName": WEBHOOK_SECRET,
        },
        "integrations": {"frameworks": ["batch/job"]},
    }
