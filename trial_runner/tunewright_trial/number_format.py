"""Which torch type a precision computes in."""

import torch

from tunewright.domain.training_config import Precision
from tunewright_trial.failures import unsupported
from tunewright_trial.layers.eight_bit import check_eight_bit

_TYPES = {"bf16": torch.bfloat16, "fp32": torch.float32, "fp8": torch.bfloat16}


def dtype_of(precision: Precision) -> torch.dtype:
    """Return the type of weights and activations; raise Unsupported for a format that this runner does not compute.

    Under fp8 the matrix products alone are narrower.
    """
    if precision not in _TYPES:
        choices = ", ".join(_TYPES)
        raise unsupported(
            f"precision {precision} does not run in the builtin backend: use {choices}, or backend primus"
        )
    return _TYPES[precision]


def uses_eight_bit(precision: Precision, device: torch.device) -> bool:
    """Whether linear layers multiply in fp8; raise Unsupported where the device cannot."""
    if precision == "fp8":
        check_eight_bit(device)
    return precision == "fp8"
