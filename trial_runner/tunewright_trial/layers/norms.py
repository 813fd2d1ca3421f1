"""Normalisations, replicated over the tensor group and applied to this rank's tokens or heads."""

import torch
from torch import nn
from torch.nn import functional

from tunewright_trial.layers.context import LayerContext
from tunewright_trial.layers.parameters import parameter

EPSILON = 1e-6


class Norm(nn.Module):
    """RMSNorm or LayerNorm over the last dimension, as the model says."""

    def __init__(self, context: LayerContext, width: int) -> None:
        super().__init__()
        self._width = (width,)
        self.weight = parameter(context, (width,), fill="ones")
        with_bias = context.model.normalization == "layernorm"
        self.bias = parameter(context, (width,), fill="zeros") if with_bias else None

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Normalise the last dimension."""
        if self.bias is None:
            return functional.rms_norm(hidden, self._width, self.weight, EPSILON)
        return functional.layer_norm(hidden, self._width, self.weight, self.bias, EPSILON)
