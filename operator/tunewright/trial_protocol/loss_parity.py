"""Whether two configurations train alike: their loss curves, compared step by step. Pure.

Called by `planner.figures`, which compares the fastest measurement with the measured baseline. All layouts of one
problem start from the same weights and see the same batches, so that curves differ only by rounding: of the number
format, of fused kernels, of the order of sums.
"""

from pydantic import Field

from tunewright.domain.value import Value
from tunewright.trial_protocol.report import Measured

TOLERANCE = 0.02
"""Relative difference of a loss that rounding may explain: bf16 keeps 8 bits (0.4 %), fp8 recipes stay within 1 to 2 %
of bf16 over a run (Micikevicius et al. 2022, arXiv 2209.05433)."""

MOST_DIFFERENCE = 1e6
"""Beyond it a difference says nothing more."""


class LossParity(Value):
    """Whether two curves agree, and by how much they differ at most."""

    agrees: bool
    steps: int = Field(ge=1, description="Steps that were compared.")
    largest_difference: float = Field(ge=0, description="Relative to the other curve's loss of the same step.")
    tolerance: float


def loss_parity(one: Measured, other: Measured, tolerance: float = TOLERANCE) -> LossParity:
    """Compare the losses of the steps that both curves have, relative to `other`'s."""
    pairs = list(zip(_curve(one), _curve(other), strict=False))
    largest = min(max(abs(mine - theirs) / max(abs(theirs), 1e-12) for mine, theirs in pairs), MOST_DIFFERENCE)
    return LossParity(agrees=largest <= tolerance, steps=len(pairs), largest_difference=largest, tolerance=tolerance)


def _curve(measured: Measured) -> tuple[float, ...]:
    """Return the loss of every step, or of the first and the last where a report has no more."""
    return measured.losses or (measured.first_loss, measured.last_loss)
