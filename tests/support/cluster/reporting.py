"""What a test run says when this machine lacks a part: one loud line and skips; in CI, failures.

Called by `fixtures.py`. A missing part in CI is a broken CI, which a skip would hide.
"""

import os
from collections.abc import Callable
from typing import TypeVar

import pytest

from tests.support.cluster.errors import MissingPart

Started = TypeVar("Started")
_missing: dict[str, None] = {}


def or_skip(start: Callable[[], Started]) -> Started:
    """Start something; where a part is missing, skip the tests that need it, or in CI fail them."""
    try:
        return start()
    except MissingPart as error:
        line = str(error)
    _missing[line] = None
    if in_ci():
        pytest.fail(line, pytrace=False)
    pytest.skip(line)


def in_ci() -> bool:
    """Tell whether this is a CI run, where nothing may be missing."""
    return os.environ.get("CI", "").lower() in {"1", "true", "yes"}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say each missing part once, however many tests wanted it."""
    for line in _missing:
        terminalreporter.write_line(f"!!! MISSING, so cluster tests did not run: {line}", red=True, bold=True)
