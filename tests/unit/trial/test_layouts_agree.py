"""Correct before fast: every layout has the losses and gradient norms of one process, in fp32."""

import math
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.trial.layouts import BEFORE_A_RELEASE, LAYOUTS, QUICK, REFERENCES

ROOT = Path(__file__).parents[3]
STEP = re.compile(r"step (\d+) loss (\S+) gradient norm (\S+) ")
Curve = list[tuple[float, float]]


def marks(name: str) -> list[pytest.MarkDecorator]:
    if name in QUICK:
        return []
    return [pytest.mark.long] if name in BEFORE_A_RELEASE else [pytest.mark.slow]


PARAMETERS = [pytest.param(name, marks=marks(name)) for name in LAYOUTS]


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest) -> dict[str, tuple[str, Curve]]:
    """Run the layouts that the selected tests need, one after the other in one process."""
    items = [item for item in request.session.items if isinstance(item, pytest.Function)]
    wanted = {str(item.callspec.params["name"]) for item in items if item.path == request.path}
    names = sorted(wanted | set(REFERENCES))
    command = [sys.executable, "-m", "tests.unit.trial.layouts", *names]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return dict(map(read_outcome, done.stderr.split("layout ")[1:]))


def read_outcome(text: str) -> tuple[str, tuple[str, Curve]]:
    name, *lines = text.splitlines()
    outcome = next(line for line in lines if line.startswith("outcome "))
    curve = [(float(step[2]), float(step[3])) for step in map(STEP.match, lines) if step]
    return name, (outcome.removeprefix("outcome ").strip(), curve)


@pytest.mark.parametrize("name", PARAMETERS)
def test_layout_trains_as_one_process_does(name: str, outcomes: dict[str, tuple[str, Curve]]) -> None:
    _, reference = outcomes[name.split(":")[0]]
    outcome, curve = outcomes[name]
    assert outcome == "measured"
    assert len(curve) == len(reference) == 2
    for step, expected in zip(curve, reference, strict=True):
        assert step == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("name", REFERENCES)
def test_one_process_learns_something(name: str, outcomes: dict[str, tuple[str, Curve]]) -> None:
    _, curve = outcomes[name]
    guess = math.log(REFERENCES[name].problem.model.vocabulary_size)
    assert curve[0][0] == pytest.approx(guess, abs=0.1)
    assert all(norm > 0.01 for _, norm in curve)
    assert curve[0] != curve[1]
