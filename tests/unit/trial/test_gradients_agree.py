"""Correct before fast: every gradient of every layout is that of one process, value by value, in fp32."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.trial.layouts import LAYOUTS, QUICK

ROOT = Path(__file__).parents[3]
TOLERANCE = 1e-4
"""Relative to a parameter's largest gradient: what other orders of summing may change in fp32."""
COMBINED = {
    "dense: pipeline 2, zero-bubble-v",
    "dense: context 2, tensor 2",
    "dense: data 2, tensor 2, pipeline 2",
    "moe: fsdp2 2, tensor 2",
    "moe: tensor 2, expert 2",
    "unusual: pipeline 4, tensor 2",
}


def marks(name: str) -> list[pytest.MarkDecorator]:
    """Some layouts in every run, some more in a full one, all before a release: most losses are compared anyway."""
    if name in QUICK:
        return []
    return [pytest.mark.slow] if name in COMBINED else [pytest.mark.long]


@pytest.fixture(scope="module")
def differences(request: pytest.FixtureRequest) -> dict[str, float]:
    """Compare the layouts that the selected tests need, one after the other in one process."""
    items = [item for item in request.session.items if isinstance(item, pytest.Function)]
    wanted = sorted({str(item.callspec.params["name"]) for item in items if item.path == request.path})
    command = [sys.executable, "-m", "tests.unit.trial.gradients", *wanted]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = (line.rpartition(" = ") for line in done.stdout.splitlines())
    return {name: float(value) for name, _, value in lines}


@pytest.mark.parametrize("name", [pytest.param(name, marks=marks(name)) for name in LAYOUTS])
def test_gradients_are_those_of_one_process(name: str, differences: dict[str, float]) -> None:
    assert differences[name] <= TOLERANCE
