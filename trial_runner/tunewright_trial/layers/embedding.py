"""The token embedding, split over the vocabulary."""

import torch
from torch import nn
from torch.nn import functional

from tunewright_trial.layers.context import LayerContext
from tunewright_trial.layers.parameters import Placement, parameter, placed_parameter
from tunewright_trial.parallel.sequence import scatter_sequence


class Embedding(nn.Module):
    """Tokens (b, S/C) to hidden states (S/(C·T), b, H)."""

    def __init__(self, context: LayerContext, tied_apart: bool = False) -> None:
        super().__init__()
        model = context.model
        self._context = context
        self.weight = vocabulary_weight(context, tied_apart)
        rows = model.learned_position_embeddings
        self.positions = parameter(context, (rows, model.hidden_size)) if rows else None
        self.register_buffer("places", context.local_positions, persistent=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Look up this rank's rows, sum over the group, keep this rank's tokens."""
        hidden = scatter_sequence(self._lookup(tokens.t()), self._context.tensor)
        if self.positions is None:
            return hidden
        return hidden + functional.embedding(self.places, self.positions).unsqueeze(1)

    def _lookup(self, tokens: torch.Tensor) -> torch.Tensor:
        tensor = self._context.tensor
        if tensor.size == 1:
            return functional.embedding(tokens, self.weight)
        local = tokens - tensor.rank * len(self.weight)
        elsewhere = (local < 0) | (local >= len(self.weight))
        return functional.embedding(local.masked_fill(elsewhere, 0), self.weight).masked_fill(
            elsewhere.unsqueeze(-1), 0.0
        )


def vocabulary_weight(context: LayerContext, tied_apart: bool) -> nn.Parameter:
    """Allocate the rows of embedding or output layer. `tied_apart`: both exist, on different ranks, with one value."""
    shape = (context.padded_vocabulary_size, context.model.hidden_size)
    if not tied_apart:
        return parameter(context, shape, "split", 0)
    return placed_parameter(context, shape, Placement("tied", ((0, context.tensor),), "normal", "embedding.weight"))
