"""Causal attention over a ring of context ranks (arXiv 2310.01889), balanced: rank i holds chunks i and 2C−1−i of 2C.

Keys and values travel around the ring; every rank attends to them as they pass and merges the results by their
log-sum-exp. In the backward pass they travel again, and each rank sends its share of their gradients straight home.
With this assignment each visit is either causal on the rank's own tokens, or plain on half of the keys or half of the
queries, so that no mask is needed. The blocks use torch's fused kernels of the device.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch.autograd.function import FunctionCtx

from tunewright_trial.layers.split import Split


def ring_attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, ring: Split) -> torch.Tensor:
    """Attend (b, heads, S/C, width) over all ranks of `ring`; keys and values are equally wide and may be grouped."""
    attended: torch.Tensor = _Ring.apply(query, key, value, ring)
    return attended


@dataclass(frozen=True)
class _Visit:
    """What one rank does with the keys of `source`: which queries meet which keys."""

    queries: slice
    keys: slice
    causal: bool

    @classmethod
    def of(cls, rank: int, source: int, tokens: int) -> "_Visit":
        if source == rank:
            return cls(slice(None), slice(None), True)
        if source < rank:
            return cls(slice(None), slice(tokens // 2), False)
        return cls(slice(tokens // 2, None), slice(None), False)


class _Ring(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: FunctionCtx, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, ring: Split
    ) -> torch.Tensor:
        travelling = torch.stack((key, value))
        result = torch.zeros(query.shape, dtype=torch.float32, device=query.device)
        total = torch.full(query.shape[:3], -torch.inf, dtype=torch.float32, device=query.device)
        for step in range(ring.size):
            arrival = _pass_on(travelling, ring) if step < ring.size - 1 else None
            visit = _Visit.of(ring.rank, (ring.rank - step) % ring.size, query.shape[2])
            part, logarithm = _attend(query, travelling, visit)
            _merge(result[:, :, visit.queries], total[:, :, visit.queries], part, logarithm)
            travelling = arrival() if arrival else travelling
        attended = result.to(query.dtype)
        ctx.save_for_backward(query, key, value, attended, total)
        ctx.ring = ring
        return attended

    @staticmethod
    def backward(ctx: FunctionCtx, gradient: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, None]:
        query, key, value, attended, total = ctx.saved_tensors
        ring: Split = ctx.ring
        travelling = torch.stack((key, value))
        of_query = torch.zeros(query.shape, dtype=torch.float32, device=query.device)
        of_own = torch.zeros(travelling.shape, dtype=torch.float32, device=query.device)
        homecoming: list[Arrival] = []
        for step in range(ring.size):
            arrival = _pass_on(travelling, ring) if step < ring.size - 1 else None
            visit = _Visit.of(ring.rank, (ring.rank - step) % ring.size, query.shape[2])
            of_queries, of_visited = _gradients(gradient, query, travelling, attended, total, visit)
            of_query[:, :, visit.queries] += of_queries
            if step == 0:
                of_own += of_visited
            else:
                whole = torch.zeros_like(of_own)
                whole[:, :, :, visit.keys] = of_visited
                homecoming.append(_exchange(whole, -step, ring))
            travelling = arrival() if arrival else travelling
        for arrive in homecoming:
            of_own += arrive()
        return of_query.to(query.dtype), of_own[0].to(key.dtype), of_own[1].to(value.dtype), None


Arrival = Callable[[], torch.Tensor]


def _pass_on(tensor: torch.Tensor, ring: Split) -> Arrival:
    """Send `tensor` to the next rank; return the call that waits for what the previous one sent."""
    return _exchange(tensor, 1, ring)


def _exchange(tensor: torch.Tensor, distance: int, ring: Split) -> Arrival:
    """Send `tensor` to the rank at `distance`; return the call that waits for what came from the other side."""
    ranks = dist.get_process_group_ranks(ring.group)
    outgoing, incoming = tensor.contiguous(), torch.empty_like(tensor)
    to, source = ranks[(ring.rank + distance) % ring.size], ranks[(ring.rank - distance) % ring.size]
    requests = dist.batch_isend_irecv(
        [dist.P2POp(dist.isend, outgoing, to, ring.group), dist.P2POp(dist.irecv, incoming, source, ring.group)]
    )

    def arrived() -> torch.Tensor:
        for request in requests:
            request.wait()
        return incoming

    return arrived


def _merge(result: torch.Tensor, total: torch.Tensor, part: torch.Tensor, logarithm: torch.Tensor) -> None:
    """Add one visit to the running result, in place: both are weighted by their share of the softmax's sum."""
    together = torch.logaddexp(total, logarithm)
    result.mul_((total - together).exp().unsqueeze(-1)).add_(part * (logarithm - together).exp().unsqueeze(-1))
    total.copy_(together)


def _attend(query: torch.Tensor, travelling: torch.Tensor, visit: _Visit) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the attention of one visit, and the logarithm of its softmax's sum."""
    key, value = _expanded(travelling[:, :, :, visit.keys], query.shape[1])
    wanted = query[:, :, visit.queries].contiguous()
    found = _forward_kernel(wanted)(wanted, key, value, 0.0, visit.causal)
    return found[0], found[1]


def _gradients(
    gradient: torch.Tensor,
    query: torch.Tensor,
    travelling: torch.Tensor,
    attended: torch.Tensor,
    total: torch.Tensor,
    visit: _Visit,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return one visit's gradients of the queries and of keys and values: the kernel needs the whole result only."""
    key, value = _expanded(travelling[:, :, :, visit.keys], query.shape[1])
    wanted, whole, arriving = (tensor[:, :, visit.queries].contiguous() for tensor in (query, attended, gradient))
    logarithm = total[:, :, visit.queries].contiguous()
    of_query, of_key, of_value = _backward_kernel(arriving, wanted, key, value, whole, logarithm, visit.causal)
    groups = travelling.shape[2]
    both = torch.stack((of_key, of_value)).unflatten(2, (groups, -1)).sum(3)
    return of_query, both


def _expanded(travelling: torch.Tensor, heads: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Repeat grouped keys and values for every query head."""
    repeated = travelling.repeat_interleave(heads // travelling.shape[2], dim=2)
    return repeated[0].contiguous(), repeated[1].contiguous()


def _forward_kernel(query: torch.Tensor) -> Callable[..., Any]:
    if query.device.type == "cpu":
        return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    return torch.ops.aten._scaled_dot_product_flash_attention


def _backward_kernel(
    gradient: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attended: torch.Tensor,
    logarithm: torch.Tensor,
    causal: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    if query.device.type == "cpu":
        of_all: tuple[torch.Tensor, torch.Tensor, torch.Tensor]
        of_all = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
            gradient, query, key, value, attended, logarithm, 0.0, causal
        )
        return of_all
    seed = torch.zeros(2, dtype=torch.uint64, device=query.device)  # unused without dropout
    of_all = torch.ops.aten._scaled_dot_product_flash_attention_backward(
        gradient,
        query,
        key,
        value,
        attended,
        logarithm,
        None,
        None,
        query.shape[2],
        key.shape[2],
        0.0,
        causal,
        seed,
        seed[:0],
    )
    return of_all
