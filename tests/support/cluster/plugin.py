"""How a tier's conftest.py gets the fixtures and its mark: two calls, the same for `cluster` and `e2e`."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.support.cluster import fixtures, reporting


def register(config: pytest.Config) -> None:
    """Make the fixtures known to the session, once."""
    for module in (fixtures, reporting):
        if not config.pluginmanager.is_registered(module):
            config.pluginmanager.register(module, module.__name__)


def mark_tests_below(folder: Path, items: Iterable[pytest.Item], mark: str) -> None:
    """Give a tier's mark to its tests; the hook that calls this sees all tests of the session."""
    for item in items:
        if folder in item.path.parents:
            item.add_marker(mark)
