"""What a test run says when this machine lacks a part: one loud line and skips; in CI, failures.

Called by `fixtures.py`. A missing part in CI is a broken CI, which a skip would hide.
"""

import os
import re
from collections.abc import Callable
from typing import TypeVar

import pytest

from tests.support.cluster.errors import MissingPart

Started = TypeVar("Started")
_SAYS_SO = re.compile(r"missing for cluster tests: (.*)")


def or_skip(start: Callable[[], Started]) -> Started:
    """Start something; where a part is missing, skip the tests that need it, or in CI fail them."""
    try:
        return start()
    except MissingPart as error:
        line = f"missing for cluster tests: {error}"
    if in_ci():
        pytest.fail(line, pytrace=False)
    pytest.skip(line)


def in_ci() -> bool:
    """Tell whether this is a CI run, where nothing may be missing."""
    return os.environ.get("CI", "").lower() in {"1", "true", "yes"}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say each missing part once, however many tests wanted it, and whichever process ran them."""
    ended = [report for outcome in ("skipped", "failed", "error") for report in terminalreporter.stats.get(outcome, ())]
    for line in dict.fromkeys(found[1] for one in ended if (found := _SAYS_SO.search(_reason(one)))):
        terminalreporter.write_line(f"!!! MISSING, so cluster tests did not run: {line}", red=True, bold=True)


def _reason(report: pytest.TestReport) -> str:
    """A skip is a place and a reason, a failure a text."""
    return report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
