"""A chunk of the model: consecutive layers, with the embedding in the first and the head in the last chunk."""

from collections.abc import Sequence

import torch
from torch import nn

from tunewright_trial.layers.context import LayerContext
from tunewright_trial.layers.embedding import Embedding
from tunewright_trial.layers.head import Head
from tunewright_trial.layers.transformer_layer import TransformerLayer, layer_kind


class ModelChunk(nn.Module):
    """Tokens or hidden states in; hidden states, or the loss where the head is, out.

    Parameter names hold the layer's index in the whole model, so that they are the same on every layout.
    """

    def __init__(
        self,
        context: LayerContext,
        layer_indices: Sequence[int],
        embedding: Embedding | None = None,
        head: Head | None = None,
    ) -> None:
        super().__init__()
        self._recompute = context.recompute
        self.embedding = embedding
        self.layers = nn.ModuleDict(
            {str(index): TransformerLayer(context, layer_kind(context, index), index) for index in layer_indices}
        )
        self.head = head

    def forward(self, hidden: torch.Tensor, targets: torch.Tensor | None = None) -> torch.Tensor:
        """Run the chunk. `targets` may be given to every chunk; only the head reads them."""
        if self.embedding is not None:
            hidden = self.embedding(hidden)
        hidden = self._recompute.run_layers(list(self.layers.values()), hidden)
        return hidden if self.head is None else self.head(hidden, targets)
