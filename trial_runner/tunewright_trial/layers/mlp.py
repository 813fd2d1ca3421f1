"""The dense MLP, also used for shared experts: gated (SwiGLU) or plain (GELU)."""

import torch
from torch import nn
from torch.nn import functional

from tunewright_trial.layers.context import LayerContext
from tunewright_trial.layers.linear import ColumnLinear, RowLinear
from tunewright_trial.parallel.sequence import gather_sequence


class DenseMlp(nn.Module):
    """(s/T, b, H) to (s/T, b, H) through a width of F/T."""

    def __init__(self, context: LayerContext, width: int) -> None:
        super().__init__()
        model = context.model
        self._tensor = context.tensor
        self.gate = ColumnLinear(context, model.hidden_size, width, model.mlp_bias) if model.gated_mlp else None
        self.up = ColumnLinear(context, model.hidden_size, width, model.mlp_bias)
        self.down = RowLinear(context, width, model.hidden_size, model.mlp_bias)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Apply the MLP to the gathered sequence."""
        tokens = gather_sequence(hidden, self._tensor)
        gate = None if self.gate is None else self.gate(tokens)
        return self.down(activate(gate, self.up(tokens)))


def activate(gate: torch.Tensor | None, up: torch.Tensor) -> torch.Tensor:
    """Return silu(gate)·up, or gelu(up) without a gate."""
    return functional.gelu(up) if gate is None else functional.silu(gate) * up
