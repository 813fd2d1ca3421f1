"""Rotary position embedding (Su et al., arXiv 2104.09864), in the half-rotation form that Hugging Face uses."""

import torch
from torch import nn

from tunewright_trial.layers.context import LayerContext

BASE = 10_000.0


class Rotary(nn.Module):
    """Rotates (s, b, heads, width) by position. The tables are buffers: autograd saves nothing of the input."""

    def __init__(self, context: LayerContext, width: int) -> None:
        super().__init__()
        positions = context.positions.float()
        frequencies = BASE ** (-torch.arange(0, width, 2, dtype=torch.float32, device=positions.device) / width)
        angles = torch.outer(positions, frequencies).repeat(1, 2)[:, None, None, :width]
        self.register_buffer("cosine", angles.cos().to(context.dtype), persistent=False)
        self.register_buffer("sine", angles.sin().to(context.dtype), persistent=False)

    def forward(self, heads: torch.Tensor) -> torch.Tensor:
        """Rotate every head."""
        first, second = heads.chunk(2, dim=-1)
        return heads * self.cosine + torch.cat((-second, first), dim=-1) * self.sine
