"""Gather and scatter of the sequence over the tensor group (sequence parallelism, arXiv 2205.05198).

Each is the other's gradient. Without a group only the shapes change: the profile of one rank sends nothing.
"""

import torch
import torch.distributed as dist
from torch.autograd.function import FunctionCtx

from tunewright_trial.layers.split import Split


def gather_sequence(hidden: torch.Tensor, split: Split) -> torch.Tensor:
    """Turn this rank's tokens (s/T, ...) into all tokens (s, ...)."""
    gathered: torch.Tensor = hidden if split.size == 1 else _Gather.apply(hidden, split)
    return gathered


def scatter_sequence(hidden: torch.Tensor, split: Split) -> torch.Tensor:
    """Sum partial results (s, ...) over the group and keep this rank's tokens (s/T, ...)."""
    scattered: torch.Tensor = hidden if split.size == 1 else _Scatter.apply(hidden, split)
    return scattered


def sum_over(value: torch.Tensor, split: Split) -> torch.Tensor:
    """Sum over the group; so is the gradient, since every rank goes on with the sum in its own way."""
    summed: torch.Tensor = _Sum.apply(value, split) if split.communicates else value
    return summed


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: FunctionCtx, value: torch.Tensor, split: Split) -> torch.Tensor:
        ctx.split = split
        return _summed(value, split)

    @staticmethod
    def backward(ctx: FunctionCtx, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        return _summed(gradient, ctx.split), None


def _summed(value: torch.Tensor, split: Split) -> torch.Tensor:
    result = value.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(result, group=split.group)
    return result


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: FunctionCtx, hidden: torch.Tensor, split: Split) -> torch.Tensor:
        ctx.split = split
        return _gathered(hidden, split)

    @staticmethod
    def backward(ctx: FunctionCtx, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        return _scattered(gradient, ctx.split), None


class _Scatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx: FunctionCtx, hidden: torch.Tensor, split: Split) -> torch.Tensor:
        ctx.split = split
        return _scattered(hidden, split)

    @staticmethod
    def backward(ctx: FunctionCtx, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        return _gathered(gradient, ctx.split), None


def _gathered(hidden: torch.Tensor, split: Split) -> torch.Tensor:
    if not split.communicates:
        return torch.cat([hidden] * split.size)
    result = hidden.new_empty((hidden.shape[0] * split.size, *hidden.shape[1:]))
    dist.all_gather_into_tensor(result, hidden.contiguous(), group=split.group)
    return result


def _scattered(hidden: torch.Tensor, split: Split) -> torch.Tensor:
    tokens = hidden.shape[0] // split.size
    if not split.communicates:
        return hidden[:tokens].clone()
    result = hidden.new_empty((tokens, *hidden.shape[1:]))
    dist.reduce_scatter_tensor(result, hidden.contiguous(), group=split.group)
    return result
