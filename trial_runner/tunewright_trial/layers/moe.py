"""The mixture of experts: router, dispatch, experts, combine, shared experts."""

import torch
from torch import nn
from torch.nn import functional

from tunewright.domain.model_architecture import MixtureOfExperts
from tunewright_trial.layers.context import LayerContext
from tunewright_trial.layers.experts import Experts
from tunewright_trial.layers.linear import ReplicatedLinear
from tunewright_trial.layers.mlp import DenseMlp
from tunewright_trial.layers.parameters import parameter
from tunewright_trial.parallel.expert import combine, dispatch


class MoeMlp(nn.Module):
    """(s/T, b, H) to (s/T, b, H).

    Token p of a sequence visits experts p·k … p·k + k − 1 modulo N, so that the load is what the problem says (Megatron
    has the same for benchmarks: --moe-router-force-load-balancing). The weights of the visits are the router's own.
    """

    def __init__(self, context: LayerContext, shape: MixtureOfExperts) -> None:
        super().__init__()
        self._context, self._shape = context, shape
        self.router = ReplicatedLinear(context, context.model.hidden_size, shape.num_experts)
        self.router_bias = parameter(context, (shape.num_experts,), fill="zeros") if shape.router_bias else None
        self.experts = Experts(context, shape)
        width = shape.shared_expert_ffn_hidden_size
        self.shared = DenseMlp(context, width) if width else None
        gated = width and shape.shared_expert_gate
        self.shared_gate = ReplicatedLinear(context, context.model.hidden_size, 1) if gated else None
        self.register_buffer("visits", self._visits(), persistent=False)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Route this rank's tokens through the experts of the group."""
        tokens = hidden.flatten(0, 1)
        weights = self._weights(tokens)
        experts = self.visits.flatten()
        order = experts.argsort(stable=True)
        rows = tokens.index_select(0, order // self._shape.experts_per_token)
        counts = experts.bincount(minlength=self._shape.num_experts)
        received = dispatch(self._context, rows, counts)
        results = combine(received, self.experts(received.rows, received.rows_per_expert))
        weighted = results * weights.flatten()[order].unsqueeze(-1)
        routed = weighted[order.argsort()].unflatten(0, weights.shape).sum(1).view_as(hidden)
        return routed if self.shared is None else routed + self._shared(self.shared, hidden)

    def _weights(self, tokens: torch.Tensor) -> torch.Tensor:
        logits = self.router(tokens).float()
        if self.router_bias is not None:
            logits = logits + self.router_bias
        chosen = functional.softmax(logits, dim=-1).gather(1, self.visits)
        return (chosen / chosen.sum(-1, keepdim=True)).to(tokens.dtype)

    def _shared(self, experts: DenseMlp, hidden: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self._context.recompute.run("shared_experts", experts, hidden)
        return result if self.shared_gate is None else result * self.shared_gate(hidden).sigmoid()

    def _visits(self) -> torch.Tensor:
        """Return the experts of this rank's tokens, shape (s/T·b, k)."""
        context, visits = self._context, self._shape.experts_per_token
        positions = context.local_positions.repeat_interleave(context.micro_batch_size)
        steps = torch.arange(visits, device=context.device)
        return (positions[:, None] * visits + steps) % self._shape.num_experts
