"""The routed experts of one rank: rows sorted by expert in, rows in the same order out."""

import torch
from torch import nn
from torch.nn import functional

from tunewright.domain.model_architecture import MixtureOfExperts
from tunewright_trial.failures import unsupported
from tunewright_trial.layers.context import LayerContext
from tunewright_trial.layers.eight_bit import linear
from tunewright_trial.layers.mlp import activate
from tunewright_trial.layers.parameters import Placement, placed_parameter


class Experts(nn.Module):
    """N/E experts of width Fe/ET. Grouped matrix products where the device has them, else one expert at a time."""

    def __init__(self, context: LayerContext, shape: MixtureOfExperts) -> None:
        super().__init__()
        model = context.model
        split, count, hidden = context.expert_tensor, shape.num_experts, model.hidden_size
        width = split.size * split.share(shape.expert_ffn_hidden_size, "expertFfnHiddenSize")
        if model.mlp_bias and split.size > 1:
            raise unsupported("experts with biases do not run with expertTensorParallelSize > 1: set it to 1")
        self._recompute, self._eight_bit = context.recompute, context.eight_bit
        self._grouped = (
            context.device.type == "cuda" and context.dtype == torch.bfloat16 and hasattr(functional, "grouped_mm")
        )
        self.gate = _weight(context, (count, width, hidden), 1) if model.gated_mlp else None
        self.up = _weight(context, (count, width, hidden), 1)
        self.down = _weight(context, (count, hidden, width), 2)
        self.up_bias = _bias(context, (count, width)) if model.mlp_bias else None
        self.down_bias = _bias(context, (count, hidden)) if model.mlp_bias else None

    def forward(self, rows: torch.Tensor, rows_per_expert: list[int]) -> torch.Tensor:
        """Apply expert e to its `rows_per_expert[e]` consecutive rows."""
        gate = None if self.gate is None else self._product(rows, self.gate, None, rows_per_expert)
        up = self._product(rows, self.up, self.up_bias, rows_per_expert)
        activation = self._recompute.run("moe_act", activate, gate, up)
        return self._product(activation, self.down, self.down_bias, rows_per_expert)

    def _product(
        self, rows: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, counts: list[int]
    ) -> torch.Tensor:
        if self._grouped and not self._eight_bit:
            ends = torch.tensor(counts, device=rows.device).cumsum(0, dtype=torch.int32)
            result = functional.grouped_mm(rows, weight.transpose(1, 2), offs=ends)
            return (
                result if bias is None else result + bias.repeat_interleave(torch.tensor(counts, device=rows.device), 0)
            )
        biases = [None] * len(counts) if bias is None else list(bias.unbind(0))
        parts = zip(rows.split(counts), weight.unbind(0), biases, strict=True)
        return torch.cat([linear(part, matrix, offset, self._eight_bit) for part, matrix, offset in parts])


def _weight(context: LayerContext, shape: tuple[int, ...], dimension: int) -> nn.Parameter:
    """Allocate a weight whose experts are split over the expert group, and each expert along `dimension`."""
    parts = ((0, context.expert), (dimension, context.expert_tensor))
    return placed_parameter(context, shape, Placement("expert", parts, "normal"))


def _bias(context: LayerContext, shape: tuple[int, int]) -> nn.Parameter:
    return placed_parameter(context, shape, Placement("expert", ((0, context.expert),), "zeros"))
