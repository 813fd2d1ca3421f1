"""The pytest fixtures of the `cluster` and `e2e` tiers; a plugin of tests/conftest.py.

As one plugin, not two imports: so a session that runs both tiers has one control plane, which the node joins.
"""

from collections.abc import Iterator

import pytest

from tests.support.cluster.cluster import Cluster
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.namespaces import namespace_on
from tests.support.cluster.node import Node
from tests.support.cluster.reporting import or_skip
from tests.support.cluster.resolver import start_cluster


@pytest.fixture(scope="session")
def control_plane() -> Iterator[Cluster]:
    """Yield a cluster of any origin: an existing one, kind's, or a bare control plane built here."""
    cluster = or_skip(start_cluster)
    yield cluster
    cluster.stop()


@pytest.fixture(scope="session")
def own_control_plane(control_plane: Cluster) -> Iterator[ControlPlane]:
    """Yield a control plane that tests may crash and join nodes to: the session's, or one beside somebody else's."""
    if isinstance(control_plane, ControlPlane):
        yield control_plane
        return
    started = or_skip(ControlPlane().start)
    yield started
    started.stop()


@pytest.fixture(scope="session")
def node(own_control_plane: ControlPlane) -> Iterator[Node]:
    """Yield a real node with 8 stand-in GPUs and names for Services; its cluster is `node.cluster`."""
    started = or_skip(Node(own_control_plane, dns=True).start)
    yield started
    started.stop()


@pytest.fixture
def namespace(control_plane: Cluster) -> Iterator[str]:
    """Yield a namespace of the test's own."""
    with namespace_on(control_plane) as name:
        yield name


@pytest.fixture
def node_namespace(node: Node) -> Iterator[str]:
    """Yield a namespace of the test's own on the node's cluster."""
    with namespace_on(node.cluster) as name:
        yield name
