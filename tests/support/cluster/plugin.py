"""How tests/conftest.py gets the fixtures of the tiers on real Kubernetes, their marks, and a process for each tier."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

from tests.support.cluster import fixtures, reporting

TIERS = ("cluster", "e2e")
"""Folders of tests that need a control plane, and their marks."""


def register(config: pytest.Config) -> None:
    """Make fixtures and reporting known to the session."""
    for module in (fixtures, reporting):
        config.pluginmanager.register(module, module.__name__)


def mark_tiers(tests: Path, items: Iterable[pytest.Item]) -> None:
    """Give each test of a tier its mark."""
    for item in items:
        for tier in TIERS:
            if tests / tier in item.path.parents:
                item.add_marker(tier)


class TierScheduling(LoadFileScheduling):
    """A tier stays in one process, where it shares a control plane, and e2e a node; of the rest each file does."""

    def _split_scope(self, nodeid: str) -> Any:
        folder = next((f"tests/{tier}/" for tier in TIERS if nodeid.startswith(f"tests/{tier}/")), None)
        return folder or super()._split_scope(nodeid)
