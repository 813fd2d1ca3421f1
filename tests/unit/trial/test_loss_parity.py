"""Loss curves that tell whether two configurations train alike."""

from pathlib import Path

import pytest

from tests.unit.trial.requests import make_request
from tests.unit.trial.test_program import run_program
from tunewright.trial_protocol.loss_parity import loss_parity
from tunewright.trial_protocol.report import Measured


def measured(*losses: float) -> Measured:
    return Measured(
        step_seconds=(1.0,),
        tokens_per_step=1,
        world_size=1,
        nodes=1,
        first_loss=losses[0],
        last_loss=losses[-1],
        losses=losses,
    )


@pytest.mark.parametrize(
    ("one", "other", "agrees", "steps"),
    [
        ((5.0, 4.0), (5.0, 4.0), True, 2),
        ((5.0, 4.04), (5.0, 4.0), True, 2),
        ((5.0, 4.2), (5.0, 4.0), False, 2),
        ((5.0,), (5.0, 4.0), True, 1),
        ((5.0, 1e30), (5.0, 0.0), False, 2),
    ],
)
def test_curves_agree_within_the_tolerance_over_the_steps_that_both_have(
    one: tuple[float, ...], other: tuple[float, ...], agrees: bool, steps: int
) -> None:
    found = loss_parity(measured(*one), measured(*other))
    assert (found.agrees, found.steps) == (agrees, steps)


def test_without_a_curve_the_first_and_the_last_loss_are_compared() -> None:
    ends = measured(5.0, 4.8, 4.5, 4.0).model_copy(update={"losses": ()})
    found = loss_parity(ends, ends.model_copy(update={"last_loss": 3.0}))
    assert (found.agrees, found.steps) == (False, 2)
    assert found.largest_difference == pytest.approx(1 / 3)


def test_the_difference_is_relative_to_the_second_curve() -> None:
    assert loss_parity(measured(4.4), measured(4.0)).largest_difference == pytest.approx(0.1)


def test_eight_bits_train_like_sixteen(tmp_path: Path) -> None:
    curves = []
    for precision in ("bf16", "fp8"):
        code, report = run_program(make_request("measure", precision=precision, request={"steps": 4}), tmp_path)
        assert code == 0, report.message
        assert report.measured is not None
        curves.append(report.measured)
    parity = loss_parity(curves[1], curves[0])
    assert parity.agrees
    assert 0 < parity.largest_difference < parity.tolerance
