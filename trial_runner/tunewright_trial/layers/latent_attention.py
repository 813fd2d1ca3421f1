"""Multi-latent attention of DeepSeek-V2 (arXiv 2405.04434): low-rank query and key/value, partly rotated keys."""

from functools import partial

import torch
from torch import nn

from tunewright.domain.model_architecture import MultiLatentAttention
from tunewright_trial.layers.attention import window_of
from tunewright_trial.layers.context import LayerContext
from tunewright_trial.layers.core_attention import attend
from tunewright_trial.layers.linear import ColumnLinear, ReplicatedLinear, RowLinear
from tunewright_trial.layers.norms import Norm
from tunewright_trial.layers.rotary import Rotary
from tunewright_trial.parallel.sequence import gather_sequence


class LatentAttention(nn.Module):
    """(s/T, b, H) to (s/T, b, H). The compressed tokens are gathered, which is less than the hidden ones."""

    def __init__(self, context: LayerContext, shape: MultiLatentAttention, layer_index: int) -> None:
        super().__init__()
        hidden, heads = context.model.hidden_size, context.model.num_attention_heads
        self._context, self._shape = context, shape
        self._attend = partial(attend, context, window_of(context, layer_index))
        self._local_heads = context.tensor.share(heads, "numAttentionHeads")
        head_width = shape.unrotated_head_dim + shape.rotated_head_dim
        self.query_down = ReplicatedLinear(context, hidden, shape.query_rank) if shape.query_rank else None
        self.query_norm = Norm(context, shape.query_rank) if shape.query_rank else None
        self.query_up = ColumnLinear(context, shape.query_rank or hidden, heads * head_width)
        self.key_value_down = ReplicatedLinear(context, hidden, shape.key_value_rank + shape.rotated_head_dim)
        self.key_value_norm = Norm(context, shape.key_value_rank)
        self.key_value_up = ColumnLinear(
            context, shape.key_value_rank, heads * (shape.unrotated_head_dim + shape.value_head_dim)
        )
        self.rotary = Rotary(context, shape.rotated_head_dim)
        self.output = RowLinear(context, heads * shape.value_head_dim, hidden)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Compress, gather, expand this rank's heads, attend."""
        compressed_query = self._compressed_query(hidden)
        rank, rotated = self._shape.key_value_rank, self._shape.rotated_head_dim
        compressed, position = self.key_value_down(hidden).split((rank, rotated), dim=-1)
        tensor = self._context.tensor
        gathered = [
            gather_sequence(part, tensor) for part in (compressed_query, self.key_value_norm(compressed), position)
        ]
        heads = self._context.recompute.run("mla_up_proj", self._expand, *gathered)
        return self.output(self._context.recompute.run("core_attn", self._attend, *heads))

    def _compressed_query(self, hidden: torch.Tensor) -> torch.Tensor:
        if self.query_down is None or self.query_norm is None:
            return hidden
        normalised: torch.Tensor = self.query_norm(self.query_down(hidden))
        return normalised

    def _expand(
        self, compressed_query: torch.Tensor, compressed: torch.Tensor, position: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        shape = self._shape
        unrotated = shape.unrotated_head_dim
        query = self.query_up(compressed_query).unflatten(-1, (self._local_heads, -1))
        query_plain, query_position = query.split((unrotated, shape.rotated_head_dim), dim=-1)
        key_value = self.key_value_up(compressed).unflatten(-1, (self._local_heads, -1))
        key_plain, value = key_value.split((unrotated, shape.value_head_dim), dim=-1)
        key_position = self.rotary(position.unsqueeze(2)).expand(-1, -1, self._local_heads, -1)
        query = torch.cat((query_plain, self.rotary(query_position)), dim=-1)
        return query, torch.cat((key_plain, key_position), dim=-1), value
