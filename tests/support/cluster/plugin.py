"""How tests/conftest.py gets the fixtures and the marks of the tiers on real Kubernetes."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.support.cluster import fixtures, reporting

TIERS = ("cluster", "e2e")
"""Folders of tests that need a control plane, and their marks."""


def register(config: pytest.Config) -> None:
    """Make fixtures and reporting known to the session."""
    for module in (fixtures, reporting):
        config.pluginmanager.register(module, module.__name__)


def mark_tiers(tests: Path, items: Iterable[pytest.Item]) -> None:
    """Give each test of a tier its mark, and a whole tier to one process: it shares a control plane, e2e a node too."""
    for item in items:
        for tier in TIERS:
            if tests / tier in item.path.parents:
                item.add_marker(tier)
                item.add_marker(pytest.mark.xdist_group(tier))
