"""One transformer layer: attention and an MLP, each behind a norm and beside a residual."""

from typing import Literal

import torch
from torch import nn

from tunewright_trial.failures import unsupported
from tunewright_trial.layers.attention import Attention
from tunewright_trial.layers.context import LayerContext
from tunewright_trial.layers.latent_attention import LatentAttention
from tunewright_trial.layers.mlp import DenseMlp
from tunewright_trial.layers.moe import MoeMlp
from tunewright_trial.layers.norms import Norm

LayerKind = Literal["dense", "moe"]


class TransformerLayer(nn.Module):
    """(s/T, b, H) to (s/T, b, H). Sandwich norms (`norms_per_layer` 4) also stand behind both blocks."""

    def __init__(self, context: LayerContext, kind: LayerKind, layer_index: int) -> None:
        super().__init__()
        model = context.model
        self._recompute = context.recompute
        self._mlp_module = "moe" if kind == "moe" else "mlp"
        self.attention_norm = Norm(context, model.hidden_size)
        self.attention = _attention(context, layer_index)
        self.mlp_norm = Norm(context, model.hidden_size)
        self.mlp = _mlp(context, kind)
        sandwich = model.norms_per_layer == 4
        self.after_attention = Norm(context, model.hidden_size) if sandwich else nn.Identity()
        self.after_mlp = Norm(context, model.hidden_size) if sandwich else nn.Identity()

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Apply attention, then the MLP."""
        run = self._recompute.run
        normalised = run("layernorm", self.attention_norm, hidden)
        hidden = hidden + self.after_attention(self.attention(normalised))
        normalised = run("layernorm", self.mlp_norm, hidden)
        return hidden + self.after_mlp(run(self._mlp_module, self.mlp, normalised))


def _attention(context: LayerContext, layer_index: int) -> nn.Module:
    if context.model.attention_sinks:
        raise unsupported("attention sinks do not run in the builtin backend: use the primus backend")
    shape = context.model.latent_attention
    return Attention(context, layer_index) if shape is None else LatentAttention(context, shape, layer_index)


def _mlp(context: LayerContext, kind: LayerKind) -> nn.Module:
    experts = context.model.experts
    if kind == "moe" and experts is not None:
        return MoeMlp(context, experts)
    return DenseMlp(context, context.model.ffn_hidden_size)


def layer_kind(context: LayerContext, layer_index: int) -> LayerKind:
    """Return what the MLP of one layer of the model is."""
    return "dense" if layer_index < context.model.num_dense_layers else "moe"
