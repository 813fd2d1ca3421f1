"""kubectl on one kubeconfig: how tests and the harness talk to a cluster of any origin."""

import base64
import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.cluster.binaries import kubectl_program
from tests.support.cluster.errors import KubectlFailed

TIMEOUT_SECONDS = 180


@dataclass(frozen=True)
class Kubectl:
    """Run kubectl; an instance is called like the program itself."""

    kubeconfig: Path
    cache: Path | None = None

    def __call__(self, *args: str, stdin: str | None = None, check: bool = True) -> str:
        """Return what kubectl printed; a refusal raises `KubectlFailed`, unless `check` is off."""
        done = subprocess.run(
            [kubectl_program(), *args],
            env=self._environment(),
            input=stdin,
            text=True,
            capture_output=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
        if check and done.returncode != 0:
            raise KubectlFailed(f"kubectl {' '.join(args)}", done.stderr)
        return done.stdout

    def apply(self, *objects: Mapping[str, Any], namespace: str | None = None) -> None:
        """Apply plain objects, in order, as one list."""
        scope = ["--namespace", namespace] if namespace else []
        listed = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        self("apply", *scope, "--filename", "-", stdin=json.dumps(listed))

    def get(self, *what: str, namespace: str | None = None) -> dict[str, Any]:
        """Return an object or a list as plain data: `get("job", "a")`, `get("pods", "--selector=a=b")`."""
        scope = ["--namespace", namespace] if namespace else []
        found: dict[str, Any] = json.loads(self("get", *scope, *what, "--output=json"))
        return found

    def server(self) -> str:
        """Return the API server's address."""
        return self("config", "view", "--minify", "--output=jsonpath={.clusters[0].cluster.server}")

    def authority(self) -> bytes:
        """Return the certificate authority that the kubeconfig trusts."""
        where = "{.clusters[0].cluster.certificate-authority-data}"
        return base64.b64decode(self("config", "view", "--minify", "--raw", "--flatten", f"--output=jsonpath={where}"))

    def _environment(self) -> dict[str, str]:
        """A short-lived cluster has its own discovery cache: a port used again would find another cluster's."""
        own_cache = {"KUBECACHEDIR": str(self.cache)} if self.cache else {}
        return {**os.environ, "KUBECONFIG": str(self.kubeconfig), **own_cache}
