"""Which torch type a precision computes in."""

import torch

from tunewright.domain.training_config import Precision
from tunewright_trial.failures import unsupported

_TYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}


def dtype_of(precision: Precision) -> torch.dtype:
    """Return the type of weights and activations; raise Unsupported for a format that this runner does not compute."""
    if precision not in _TYPES:
        raise unsupported(f"precision {precision} does not run in the builtin backend: use bf16 or the primus backend")
    return _TYPES[precision]
