"""What cluster tests of the operator share: the CRD installed, a client of ours, a run in a namespace."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.support.cluster.cluster import Cluster
from tests.support.cluster.errors import KubectlFailed
from tests.support.cluster.waiting import wait_until
from tunewright.adapters.kube.client import KubeClient, connected
from tunewright.adapters.kube.crd import CRD_FILE
from tunewright.adapters.kube.names import RunReference


def install_crd(cluster: Cluster) -> None:
    """Apply the committed CRD and wait until the API serves it."""
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "--filename", str(CRD_FILE))
    wait_until(lambda: _is_served(cluster), "tuningruns are served")


def _is_served(cluster: Cluster) -> bool:
    try:
        cluster.kubectl("get", "tuningruns.tunewright.dev", "--all-namespaces")
    except KubectlFailed:
        return False
    return True


def apply_run(cluster: Cluster, namespace: str, document: dict[str, Any]) -> RunReference:
    """Apply a TuningRun and return whose objects are its own."""
    cluster.kubectl("apply", "--namespace", namespace, "--filename", "-", stdin=json.dumps(document))
    found = cluster.kubectl.get("tuningrun", document["metadata"]["name"], namespace=namespace)
    return RunReference(namespace, found["metadata"]["name"], found["metadata"]["uid"])


@asynccontextmanager
async def kube_client(cluster: Cluster) -> AsyncIterator[KubeClient]:
    """Connect as the cluster's administrator."""
    async with connected(str(cluster.kubeconfig)) as client:
        yield client
