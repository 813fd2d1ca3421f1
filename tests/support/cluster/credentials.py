"""Keys and tokens of one control plane: made before it starts, and kubeconfigs for others once it runs.

Called by `control_plane.py` and, for a service account's kubeconfig, by tests of the operator's rights.
"""

import ssl
import urllib.error
import urllib.request
from pathlib import Path

from tests.support.cluster.commands import need_program, run
from tests.support.cluster.kubeconfig import write_kubeconfig
from tests.support.cluster.kubectl import Kubectl


def make_credentials(folder: Path, admin_token: str) -> None:
    """Write the admin's token, and one key with a certificate of its own.

    The key signs service-account tokens, and is how the API server shows a kubelet who it is.
    """
    openssl = need_program("openssl", "install the package openssl")
    key, certificate = folder / "key.pem", folder / "client.pem"
    subject = ["-subj", "/O=system:masters/CN=kube-apiserver", "-days", "30"]
    run(openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate, *subject)
    tokens = folder / "tokens.csv"
    tokens.touch(mode=0o600)
    tokens.write_text(f"{admin_token},admin,admin,system:masters\n")


def api_server_ready(url: str, authority: Path, token: str) -> bool:
    """Tell whether the API server says that it is ready."""
    if not authority.exists():
        return False
    request = urllib.request.Request(f"{url}/readyz", headers={"Authorization": f"Bearer {token}"})
    try:
        context = ssl.create_default_context(cafile=str(authority))
        with urllib.request.urlopen(request, context=context, timeout=5) as answer:
            return bool(answer.status == 200)
    except (OSError, ssl.SSLError, urllib.error.URLError):
        return False


def service_account_kubeconfig(kubectl: Kubectl, namespace: str, name: str, file: Path) -> Path:
    """Write a kubeconfig that acts as a service account, and return the file."""
    token = kubectl("create", "token", name, f"--namespace={namespace}", "--duration=8h").strip()
    return write_kubeconfig(file, kubectl.server(), kubectl.authority(), token)
