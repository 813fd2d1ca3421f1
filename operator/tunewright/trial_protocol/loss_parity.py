"""Whether two configurations train alike: their loss curves, compared step by step. Pure.

Called where a measured winner is compared with the measured baseline. All layouts of one problem start from the same
weights and see the same batches, so that curves differ only by rounding: of the number format, of fused kernels, of
the order of sums.
"""

from tunewright.domain.value import Value
from tunewright.trial_protocol.report import Measured

TOLERANCE = 0.02
"""Relative difference of a loss that rounding may explain: bf16 keeps 8 bits (0.4 %), fp8 recipes stay within 1 to 2 %
of bf16 over a run (Micikevicius et al. 2022, arXiv 2209.05433)."""


class LossParity(Value):
    """`agrees` is None where there are no steps to compare."""

    agrees: bool | None
    steps: int
    largest_difference: float
    tolerance: float


def loss_parity(one: Measured, other: Measured, tolerance: float = TOLERANCE) -> LossParity:
    """Compare the losses of the steps that both curves have, relative to `other`'s."""
    pairs = list(zip(one.losses, other.losses, strict=False))
    if not pairs:
        return LossParity(agrees=None, steps=0, largest_difference=0.0, tolerance=tolerance)
    largest = max(abs(mine - theirs) / max(abs(theirs), 1e-12) for mine, theirs in pairs)
    return LossParity(agrees=largest <= tolerance, steps=len(pairs), largest_difference=largest, tolerance=tolerance)
