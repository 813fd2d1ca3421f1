"""What the tests against a real API server share; the tier's own fixtures are in tests/support/cluster."""

from pathlib import Path

import pytest

from tests.support.cluster.cluster import Cluster
from tests.support.operator_process import OperatorProcess


@pytest.fixture
def operator(control_plane: Cluster, namespace: str, tmp_path: Path) -> OperatorProcess:
    """The operator as a process that watches the test's namespace."""
    return OperatorProcess(control_plane, namespace, tmp_path / "operator.log")
