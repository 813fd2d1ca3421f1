"""Normalisations, replicated over the tensor group and applied to this rank's tokens or heads."""

import torch
from torch import nn
from torch.nn import functional

from tunewright_trial.layers.context import LayerContext
from tunewright_trial.layers.parameters import Kind, Placement, parameter, placed_parameter
from tunewright_trial.layers.split import Split
from tunewright_trial.parallel.sequence import sum_over

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


class SplitNorm(nn.Module):
    """RMSNorm over a dimension that is split over the tensor group: the mean square is taken over all ranks.

    `heads` says how the dimension is split; `copies` ranks hold the same part of it.
    """

    def __init__(self, context: LayerContext, width: int, heads: Split, copies: int) -> None:
        super().__init__()
        self._tensor, self._scale = context.tensor, 1.0 / (width * copies)
        kind: Kind = "split" if copies == 1 else "key-value"
        self.weight = placed_parameter(context, (width,), Placement(kind, ((0, heads),), "ones"))

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Normalise the whole dimension."""
        wide = hidden.float()
        squares = sum_over(wide.square().sum(-1, keepdim=True), self._tensor)
        return (wide * (squares * self._scale + EPSILON).rsqrt()).to(hidden.dtype) * self.weight
