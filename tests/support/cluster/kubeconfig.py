"""Kubeconfig files, self-contained so that they can be copied or mounted: written for each client of a control plane.

JSON is YAML, so no YAML library is needed to write one.
"""

import base64
import json
from pathlib import Path

CONTEXT = "tunewright-test"


def write_kubeconfig(file: Path, url: str, authority: bytes, token: str) -> Path:
    """Write a kubeconfig for a bearer token and return the file."""
    cluster = {"server": url, "certificate-authority-data": base64.b64encode(authority).decode()}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": CONTEXT,
        "clusters": [{"name": CONTEXT, "cluster": cluster}],
        "users": [{"name": CONTEXT, "user": {"token": token}}],
        "contexts": [{"name": CONTEXT, "context": {"cluster": CONTEXT, "user": CONTEXT}}],
    }
    file.touch(mode=0o600)
    file.write_text(json.dumps(document, indent=1))
    return file
