"""Which cluster the tests get on this machine. Called by `fixtures.py`.

Somebody's cluster goes before kind, kind before the components built from their Go modules.
"""

import os
import shutil
from pathlib import Path

from tests.support.cluster.cluster import Cluster, ExistingCluster, KindCluster
from tests.support.cluster.commands import succeeds
from tests.support.cluster.control_plane import ControlPlane

KUBECONFIG_VARIABLE = "TUNEWRIGHT_TEST_KUBECONFIG"


def start_cluster() -> Cluster:
    """Start or find a cluster; raises `MissingPart` where this machine can have none."""
    given = os.environ.get(KUBECONFIG_VARIABLE)
    if given:
        return ExistingCluster(Path(given).resolve())
    if shutil.which("kind") and succeeds("docker", "info", timeout=20):
        return KindCluster()
    return ControlPlane().start()
