"""Expert parallelism: rows travel to the ranks of their experts and back, by all-to-all.

With expert tensor parallelism the ranks of a group hold slices of the same experts: each works on the rows of all of
them, and the partial results are summed where the rows came from.
"""

from dataclasses import dataclass, field, replace

import torch
import torch.distributed as dist
from torch.autograd.function import FunctionCtx

from tunewright_trial.layers.context import LayerContext
from tunewright_trial.layers.split import WHOLE, Split


@dataclass(frozen=True)
class Received:
    """Rows for this rank's experts, sorted by expert, and how to send the results back."""

    rows: torch.Tensor
    rows_per_expert: list[int]
    split: Split
    order: torch.Tensor | None
    sent: list[int]
    received: list[int]
    slices: Split = WHOLE
    slice_order: torch.Tensor | None = None
    slice_rows: list[int] = field(default_factory=list)


def dispatch(context: LayerContext, rows: torch.Tensor, counts: torch.Tensor) -> Received:
    """Send `rows`, sorted by expert with `counts[e]` for expert e, to the ranks that hold the experts."""
    split, slices = context.expert, context.expert_tensor
    if split.communicates or slices.communicates:
        received = _exchange(split, rows, counts) if split.communicates else _kept(split, rows, counts)
        return _gathered(received, slices) if slices.communicates else received
    if split.size == 1 and slices.size == 1 and context.routing_imbalance == 1.0:
        return _kept(split, rows, counts)
    return _as_if_exchanged(context, rows, len(counts) // split.size)


def combine(received: Received, results: torch.Tensor) -> torch.Tensor:
    """Return the results of `dispatch`ed rows in their order before it."""
    if received.slice_order is not None:
        results = _SumBack.apply(results[received.slice_order.argsort()], received.slice_rows, received.slices)
        if not received.split.communicates:
            return results
    if received.split.communicates and received.order is not None:
        results = results[received.order.argsort()]
        returned: torch.Tensor = _AllToAll.apply(results, received.received, received.sent, received.split.group)
        return returned
    wanted, have = received.sent[0], len(results)
    if have == wanted:
        return results
    return results[:wanted] if have > wanted else results.repeat(-(-wanted // have), 1)[:wanted]


def _kept(split: Split, rows: torch.Tensor, counts: torch.Tensor) -> Received:
    return Received(rows, counts.tolist(), split, None, [len(rows)], [len(rows)])


def _gathered(received: Received, slices: Split) -> Received:
    """Add the rows of the other ranks that hold slices of the same experts, sorted by expert again."""
    own = torch.tensor(received.rows_per_expert, device=received.rows.device)
    everyone = own.new_empty(slices.size * len(own))
    dist.all_gather_into_tensor(everyone, own, group=slices.group)
    counts = everyone.view(slices.size, -1)
    slice_rows = counts.sum(1).tolist()
    rows: torch.Tensor = _GatherRows.apply(received.rows, slice_rows, slices)
    experts = torch.arange(len(own), device=rows.device).repeat(slices.size).repeat_interleave(everyone)
    order = experts.argsort(stable=True)
    return replace(
        received,
        rows=rows[order],
        rows_per_expert=counts.sum(0).tolist(),
        slices=slices,
        slice_order=order,
        slice_rows=slice_rows,
    )


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
    factor = context.expert_tensor.size * context.routing_imbalance
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


class _GatherRows(torch.autograd.Function):
    """Every rank's rows on every rank; the other way round, gradients are summed at home. `_SumBack` is its mirror."""

    @staticmethod
    def forward(ctx: FunctionCtx, rows: torch.Tensor, counts: list[int], group: Split) -> torch.Tensor:
        ctx.counts, ctx.split = counts, group
        return _to_everyone(rows, counts, group)

    @staticmethod
    def backward(ctx: FunctionCtx, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return _summed_at_home(gradient, ctx.counts, ctx.split), None, None


class _SumBack(torch.autograd.Function):
    @staticmethod
    def forward(ctx: FunctionCtx, rows: torch.Tensor, counts: list[int], group: Split) -> torch.Tensor:
        ctx.counts, ctx.split = counts, group
        return _summed_at_home(rows, counts, group)

    @staticmethod
    def backward(ctx: FunctionCtx, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return _to_everyone(gradient, ctx.counts, ctx.split), None, None


def _to_everyone(rows: torch.Tensor, counts: list[int], group: Split) -> torch.Tensor:
    """Gather different numbers of rows, which plain all-gather cannot."""
    return _all_to_all(rows.repeat(group.size, 1), [len(rows)] * group.size, counts, group.group)


def _summed_at_home(rows: torch.Tensor, counts: list[int], group: Split) -> torch.Tensor:
    own = counts[group.rank]
    parts = _all_to_all(rows, counts, [own] * group.size, group.group)
    return parts.view(group.size, own, -1).sum(0)


def _all_to_all(rows: torch.Tensor, sent: list[int], received: list[int], group: dist.ProcessGroup) -> torch.Tensor:
    result = rows.new_empty((sum(received), *rows.shape[1:]))
    dist.all_to_all_single(result, rows.contiguous(), received, sent, group=group)
    return result
