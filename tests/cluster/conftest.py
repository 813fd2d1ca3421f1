"""The `cluster` tier: tests against a real API server; see tests/support/cluster."""

from pathlib import Path

import pytest

from tests.support.cluster import plugin


def pytest_configure(config: pytest.Config) -> None:
    plugin.register(config)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    plugin.mark_tests_below(Path(__file__).parent, items, "cluster")
