"""The `cluster` tier: tests against a real API server; see tests/support/cluster."""

from pathlib import Path

import pytest

from tests.support.cluster import plugin
from tests.support.cluster.cluster import Cluster
from tests.support.operator_process import OperatorProcess


def pytest_configure(config: pytest.Config) -> None:
    plugin.register(config)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    plugin.mark_tests_below(Path(__file__).parent, items, "cluster")


@pytest.fixture
def operator(control_plane: Cluster, namespace: str, tmp_path: Path) -> OperatorProcess:
    """The operator as a process that watches the test's namespace."""
    return OperatorProcess(control_plane, namespace, tmp_path / "operator.log")
