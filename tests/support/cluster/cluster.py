"""What every cluster offers to tests, and the two kinds that this package does not build itself.

Chosen by `resolver.py`. Tests that need more than this (outages, nodes) ask for a `ControlPlane`.
"""

import os
import tempfile
from pathlib import Path
from typing import Protocol

from tests.support.cluster.commands import run
from tests.support.cluster.kubectl import Kubectl


class Cluster(Protocol):
    """A Kubernetes that tests may fill with objects of their own namespaces."""

    @property
    def kubeconfig(self) -> Path:
        """A file with an administrator's rights."""

    @property
    def kubectl(self) -> Kubectl:
        """kubectl with those rights."""

    @property
    def url(self) -> str:
        """The API server's address."""

    def stop(self) -> None:
        """End the cluster, if it was started for the tests."""


class ExistingCluster:
    """Somebody's cluster, named by `$TUNEWRIGHT_TEST_KUBECONFIG`; it is never stopped."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        self.kubectl = Kubectl(kubeconfig)
        self.url = self.kubectl.server()

    def stop(self) -> None:
        """Leave it as it is."""


class KindCluster(ExistingCluster):
    """A cluster made with kind, for a machine with a Docker engine."""

    def __init__(self) -> None:
        self._name = f"tunewright-test-{os.getpid()}"
        self._folder = tempfile.TemporaryDirectory(prefix="tunewright-kind-")
        kubeconfig = Path(self._folder.name) / "kubeconfig"
        run("kind", "create", "cluster", f"--name={self._name}", f"--kubeconfig={kubeconfig}", "--wait=5m")
        super().__init__(kubeconfig)

    def stop(self) -> None:
        """Delete it."""
        run("kind", "delete", "cluster", f"--name={self._name}", f"--kubeconfig={self.kubeconfig}")
        self._folder.cleanup()
