"""What the tests against a real API server share; the tier's own fixtures are in tests/support/cluster."""

from pathlib import Path

import pytest

from tests.support.cluster.cluster import Cluster
from tests.support.cluster.control_plane import ControlPlane
from tests.support.kube_cluster import apply_run, install_crd
from tests.support.kube_documents import a_tuning_run
from tests.support.operator_process import OperatorProcess
from tunewright.adapters.kube.names import RunReference


@pytest.fixture(scope="module")
def crd(control_plane: Cluster) -> None:
    """The committed CRD, whatever an earlier module made of it."""
    install_crd(control_plane)


@pytest.fixture(scope="module")
def own_crd(own_control_plane: ControlPlane) -> None:
    """The same on the project's own cluster."""
    install_crd(own_control_plane)


@pytest.fixture
def run(crd: None, control_plane: Cluster, namespace: str) -> RunReference:
    """A run that no operator looks after."""
    return apply_run(control_plane, namespace, a_tuning_run())


@pytest.fixture
def operator(control_plane: Cluster, namespace: str, tmp_path: Path) -> OperatorProcess:
    """The operator as a process that watches the test's namespace."""
    return OperatorProcess(control_plane, namespace, tmp_path / "operator.log")
