"""Waiting for a condition instead of for a time: called wherever another process has to get somewhere first."""

import time
from collections.abc import Callable
from typing import TypeVar

from tests.support.cluster.errors import HarnessError

Answer = TypeVar("Answer")


def wait_until(condition: Callable[[], Answer | None], what: str, timeout: float = 120, every: float = 0.05) -> Answer:
    """Return the condition's first truthy answer, or fail naming what never came."""
    deadline = time.monotonic() + timeout
    while True:
        if answer := condition():
            return answer
        if time.monotonic() > deadline:
            raise HarnessError(f"{what}: not within {timeout:.0f} s")
        time.sleep(every)
