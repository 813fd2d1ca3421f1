"""Attention with separate query, key and value projections (multi-head, grouped, multi-query)."""

from functools import partial

import torch
from torch import nn

from tunewright_trial.failures import unsupported
from tunewright_trial.layers.context import LayerContext
from tunewright_trial.layers.core_attention import attend
from tunewright_trial.layers.linear import ColumnLinear, HeadLinear, RowLinear
from tunewright_trial.layers.norms import Norm, SplitNorm
from tunewright_trial.layers.rotary import Rotary
from tunewright_trial.layers.split import Split
from tunewright_trial.parallel.sequence import gather_sequence


def window_of(context: LayerContext, layer_index: int) -> int:
    """Return the sliding window of one layer in tokens; 0 is full attention."""
    model = context.model
    return model.sliding_window if layer_index % model.sliding_window_every == 0 else 0


def local_groups(context: LayerContext) -> int:
    """Return the key/value heads that this rank works on: G/T, or one where T exceeds G."""
    groups, tensor = context.model.num_key_value_heads, context.tensor
    if groups % tensor.size and tensor.size % groups:
        raise unsupported(f"tensorParallelSize {tensor.size} and {groups} key/value heads: one must divide the other")
    return max(groups // tensor.size, 1)


class Attention(nn.Module):
    """(s/T, b, H) to (s/T, b, H). Gathers the sequence, works on A/T heads, scatters the sequence."""

    def __init__(self, context: LayerContext, layer_index: int) -> None:
        super().__init__()
        model = context.model
        self._context = context
        self._attend = partial(attend, context, window_of(context, layer_index))
        self._head_dim = model.head_dim
        heads = model.num_attention_heads * model.head_dim
        bias = model.attention_input_bias
        self.query = ColumnLinear(context, model.hidden_size, heads, bias)
        self.key, self.value = _key_value_linear(context, bias), _key_value_linear(context, bias)
        self.output = RowLinear(context, heads, model.hidden_size, model.attention_output_bias)
        self.query_norm, self.key_norm = _query_key_norms(context)
        self.rotary = None if model.learned_position_embeddings else Rotary(context, model.head_dim)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Attend over the whole sequence slice."""
        tokens = gather_sequence(hidden, self._context.tensor)
        query = self._positioned(self.query_norm(self.query(tokens)))
        key = self._positioned(self.key_norm(self.key(tokens)))
        value = self.value(tokens).unflatten(-1, (-1, self._head_dim))
        attended = self._context.recompute.run("core_attn", self._attend, query, key, value)
        return self.output(attended)

    def _positioned(self, projection: torch.Tensor) -> torch.Tensor:
        heads = projection.unflatten(-1, (-1, self._head_dim))
        return heads if self.rotary is None else self.rotary(heads)


def _key_value_linear(context: LayerContext, bias: bool) -> nn.Module:
    model, tensor = context.model, context.tensor
    groups, width = model.num_key_value_heads, model.num_key_value_heads * model.head_dim
    local_groups(context)  # refuses what does not divide
    if groups >= tensor.size:
        return ColumnLinear(context, model.hidden_size, width, bias)
    return HeadLinear(context, model.hidden_size, width, key_value_split(context), bias)


def key_value_split(context: LayerContext) -> Split:
    """Return how key/value heads are split: over the tensor ranks; with fewer heads, neighbours have the same."""
    groups, tensor = context.model.num_key_value_heads, context.tensor
    if groups >= tensor.size:
        return tensor
    return Split(groups, tensor.rank * groups // tensor.size, tensor.group)


class HeadNorm(Norm):
    """A norm over each head of (s, b, heads·d)."""

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Normalise every head by itself."""
        return super().forward(hidden.unflatten(-1, (-1, self._width[0]))).flatten(-2)


def _query_key_norms(context: LayerContext) -> tuple[nn.Module, nn.Module]:
    model = context.model
    if model.query_key_norm == "none":
        return nn.Identity(), nn.Identity()
    if model.query_key_norm == "per-head":
        return HeadNorm(context, model.head_dim), HeadNorm(context, model.head_dim)
    if context.tensor.communicates:
        return _split_query_key_norms(context)
    query_width = context.tensor.share(model.num_attention_heads, "numAttentionHeads") * model.head_dim
    return Norm(context, query_width), Norm(context, local_groups(context) * model.head_dim)


def _split_query_key_norms(context: LayerContext) -> tuple[nn.Module, nn.Module]:
    """Norms over all heads, which are on different ranks."""
    model, tensor = context.model, context.tensor
    if model.normalization != "rmsnorm":
        raise unsupported("a LayerNorm over all heads does not run with tensorParallelSize > 1: use 1")
    heads = key_value_split(context)
    width = model.num_key_value_heads * model.head_dim
    query = SplitNorm(context, model.num_attention_heads * model.head_dim, tensor, 1)
    return query, SplitNorm(context, width, heads, tensor.size // heads.size)
