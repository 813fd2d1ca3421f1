"""What a whole session shares: fixtures, marks and the loud line of the tiers on real Kubernetes."""

from pathlib import Path

import pytest

from tests.support.cluster import plugin


def pytest_configure(config: pytest.Config) -> None:
    plugin.register(config)


@pytest.hookimpl(tryfirst=True)  # pytest-xdist reads the groups in its own
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    plugin.mark_tiers(Path(__file__).parent, items)
