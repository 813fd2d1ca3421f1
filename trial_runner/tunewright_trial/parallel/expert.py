"""Expert parallelism: rows travel to the ranks of their experts and back, by all-to-all."""

from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch.autograd.function import FunctionCtx

from tunewright_trial.layers.context import LayerContext
from tunewright_trial.layers.split import Split


@dataclass(frozen=True)
class Received:
    """Rows for this rank's experts, sorted by expert, and how to send the results back."""

    rows: torch.Tensor
    rows_per_expert: list[int]
    split: Split
    order: torch.Tensor | None
    sent: list[int]
    received: list[int]


def dispatch(context: LayerContext, rows: torch.Tensor, counts: torch.Tensor) -> Received:
    """Send `rows`, sorted by expert with `counts[e]` for expert e, to the ranks that hold the experts."""
    split = context.expert
    if split.communicates:
        return _exchange(split, rows, counts)
    if split.size == 1 and context.expert_tensor_size == 1 and context.routing_imbalance == 1.0:
        return Received(rows, counts.tolist(), split, None, [len(rows)], [len(rows)])
    return _as_if_exchanged(context, rows, len(counts) // split.size)


def combine(received: Received, results: torch.Tensor) -> torch.Tensor:
    """Return the results of `dispatch`ed rows in their order before it."""
    if received.split.communicates and received.order is not None:
        results = results[received.order.argsort()]
        returned: torch.Tensor = _AllToAll.apply(results, received.received, received.sent, received.split.group)
        return returned
    wanted, have = received.sent[0], len(results)
    if have == wanted:
        return results
    return results[:wanted] if have > wanted else results.repeat(-(-wanted // have), 1)[:wanted]


def _exchange(split: Split, rows: torch.Tensor, counts: torch.Tensor) -> Received:
    local_experts = len(counts) // split.size
    incoming = torch.empty_like(counts)
    dist.all_to_all_single(incoming, counts, group=split.group)
    by_source = incoming.view(split.size, local_experts)
    sent = counts.view(split.size, local_experts).sum(1).tolist()
    received = by_source.sum(1).tolist()
    arrived: torch.Tensor = _AllToAll.apply(rows, sent, received, split.group)
    experts = torch.arange(local_experts, device=rows.device).repeat(split.size).repeat_interleave(incoming)
    order = experts.argsort(stable=True)
    return Received(arrived[order], by_source.sum(0).tolist(), split, order, sent, received)


def _as_if_exchanged(context: LayerContext, rows: torch.Tensor, local_experts: int) -> Received:
    """Shape one rank's rows as the busiest rank would receive them: ET·f times its own, even over its experts."""
    factor = context.expert_tensor_size * context.routing_imbalance
    per_expert = max(round(len(rows) * factor / local_experts), 1)
    total = per_expert * local_experts
    arrived = rows[:total] if total <= len(rows) else rows.repeat(-(-total // len(rows)), 1)[:total]
    return Received(arrived, [per_expert] * local_experts, context.expert, None, [len(rows)], [total])


class _AllToAll(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: FunctionCtx, rows: torch.Tensor, sent: list[int], received: list[int], group: dist.ProcessGroup
    ) -> torch.Tensor:
        ctx.sent, ctx.received, ctx.group = sent, received, group
        return _all_to_all(rows, sent, received, group)

    @staticmethod
    def backward(ctx: FunctionCtx, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
        return _all_to_all(gradient, ctx.received, ctx.sent, ctx.group), None, None, None


def _all_to_all(rows: torch.Tensor, sent: list[int], received: list[int], group: dist.ProcessGroup) -> torch.Tensor:
    result = rows.new_empty((sum(received), *rows.shape[1:]))
    dist.all_to_all_single(result, rows.contiguous(), received, sent, group=group)
    return result
