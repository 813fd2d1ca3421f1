"""The routed experts of one rank: rows sorted by expert in, rows in the same order out."""

import torch
from torch import nn
from torch.nn import functional

from tunewright.domain.model_architecture import MixtureOfExperts
from tunewright_trial.failures import unsupported
from tunewright_trial.layers.context import LayerContext
from tunewright_trial.layers.mlp import activate
from tunewright_trial.layers.parameters import parameter


class Experts(nn.Module):
    """N/E experts of width Fe/ET. Grouped matrix products where the device has them, else one expert at a time."""

    def __init__(self, context: LayerContext, shape: MixtureOfExperts) -> None:
        super().__init__()
        model = context.model
        if shape.expert_ffn_hidden_size % context.expert_tensor_size:
            raise unsupported(f"expertTensorParallelSize {context.expert_tensor_size} does not divide the expert width")
        width, hidden = shape.expert_ffn_hidden_size // context.expert_tensor_size, model.hidden_size
        self._recompute = context.recompute
        self._grouped = (
            context.device.type == "cuda" and context.dtype == torch.bfloat16 and hasattr(functional, "grouped_mm")
        )
        self.gate = parameter(context, (shape.num_experts, width, hidden), "expert") if model.gated_mlp else None
        self.up = parameter(context, (shape.num_experts, width, hidden), "expert")
        self.down = parameter(context, (shape.num_experts, hidden, width), "expert")
        if model.mlp_bias:
            self.up_bias = parameter(context, (shape.num_experts, width), "expert", fill="zeros")
            self.down_bias = parameter(context, (shape.num_experts, hidden), "expert", fill="zeros")
        else:
            self.up_bias = self.down_bias = None

    def forward(self, rows: torch.Tensor, rows_per_expert: list[int]) -> torch.Tensor:
        """Apply expert e to its `rows_per_expert[e]` consecutive rows."""
        gate = None if self.gate is None else self._product(rows, self.gate, None, rows_per_expert)
        up = self._product(rows, self.up, self.up_bias, rows_per_expert)
        activation = self._recompute.run("moe_act", activate, gate, up)
        return self._product(activation, self.down, self.down_bias, rows_per_expert)

    def _product(
        self, rows: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, counts: list[int]
    ) -> torch.Tensor:
        if self._grouped:
            ends = torch.tensor(counts, device=rows.device).cumsum(0, dtype=torch.int32)
            result = functional.grouped_mm(rows, weight.transpose(1, 2), offs=ends)
            return (
                result if bias is None else result + bias.repeat_interleave(torch.tensor(counts, device=rows.device), 0)
            )
        biases = [None] * len(counts) if bias is None else list(bias.unbind(0))
        parts = zip(rows.split(counts), weight.unbind(0), biases, strict=True)
        return torch.cat([functional.linear(part, matrix, offset) for part, matrix, offset in parts])
