"""What a whole session shares: fixtures, marks and the loud line of the tiers on real Kubernetes."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer

from tests.support.cluster import plugin

# A busy machine is slow: no example fails for the time that it took.
settings.register_profile("patient", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


def pytest_configure(config: pytest.Config) -> None:
    plugin.register(config)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    plugin.mark_tiers(Path(__file__).parent, items)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> plugin.TierScheduling:
    return plugin.TierScheduling(config, log)
