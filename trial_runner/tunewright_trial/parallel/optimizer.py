"""AdamW over flat buffers, with gradients reduced over the data group and states sharded over it (ZeRO-1).

Parameters are grouped by the ranks that share them (`buckets_of`). Each bucket keeps its parameters in one buffer and
its fp32 gradients in another, so that a step is one reduction, one fused update and one gather.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Protocol

import torch
import torch.distributed as dist
from torch import nn

from tunewright_trial.layers.parameters import Kind, placement_of
from tunewright_trial.layers.split import Split
from tunewright_trial.parallel.adam import AdamState
from tunewright_trial.parallel.replicas import deviating_ranks

Copies = Mapping[Kind, tuple[Split, Split]]
"""By kind of parameter: the ranks whose gradients are of other tokens or heads, and the ranks of other sequences."""


class Optimizer(Protocol):
    """What a training step needs of an optimizer."""

    def clear_gradients(self) -> None:
        """Zero all gradients."""

    def step(self, learning_rate: float) -> float:
        """Update everything; return this rank's part of the squared gradient norm, each value counted once."""

    def deviating_ranks(self) -> set[int]:
        """Return the ranks of this rank's replicas whose weights differ; every rank must call this."""


class Bucket:
    """Parameters that the same ranks share. `divisor` turns the sum over replicas into the mean of the batch."""

    def __init__(self, parameters: list[nn.Parameter], data: Split, sharded: bool, divisor: int) -> None:
        self._data, self._sharded, self._divisor = data, sharded and data.communicates, divisor
        self._parameters = parameters
        shards = data.size if self._sharded else 1
        size = sum(value.numel() for value in parameters)
        padded = -(-size // shards) * shards
        self._values = parameters[0].new_zeros(padded, requires_grad=False)
        self._gradients = torch.zeros(padded, dtype=torch.float32, device=self._values.device)
        self._parts = collect_gradients(parameters, self._gradients)
        self._adopt()
        self._own = slice(0, padded)
        if self._sharded:
            length = padded // shards
            self._own = slice(data.rank * length, (data.rank + 1) * length)
        self._adam = AdamState([self._values[self._own].float().clone()])

    def _adopt(self) -> None:
        """Move the parameters into the buffer."""
        first = 0
        for value in self._parameters:
            part = slice(first, first + value.numel())
            with torch.no_grad():
                self._values[part].copy_(value.flatten())
            value.data = self._values[part].view_as(value)
            first += value.numel()

    def clear_gradients(self) -> None:
        """Zero the gradients in place: fp32 parameters keep looking at the buffer."""
        self._gradients.zero_()

    def collect(self) -> None:
        """Take over gradients that were set without autograd's hooks: split backward passes do that."""
        for value, part in zip(self._parameters, self._parts, strict=True):
            if value.grad is not None and value.dtype != torch.float32:
                _Collector(part)(value)

    def sum_gradients(self, group: Split) -> None:
        """Add the gradients of the ranks that hold the same parameters for different tokens or heads."""
        if group.communicates:
            dist.all_reduce(self._gradients, group=group.group)

    def step(self, learning_rate: float) -> float:
        """Reduce, update this rank's shard, gather. Return the sum of squares of the gradients in this shard."""
        gradient = self._reduced().div_(self._divisor)
        self._adam.update([gradient], learning_rate)
        own = self._values[self._own]
        own.copy_(self._adam.masters[0])
        if self._sharded:
            dist.all_gather_into_tensor(self._values, own.clone(), group=self._data.group)
        return float(gradient.square().sum())

    def deviating_ranks(self) -> set[int]:
        """Compare the weights of the ranks that hold the same ones, by the sum of their bits."""
        return deviating_ranks(self._values, self._data) if self._data.communicates else set()

    def _reduced(self) -> torch.Tensor:
        if self._sharded:
            shard = torch.empty_like(self._adam.masters[0])
            dist.reduce_scatter_tensor(shard, self._gradients, group=self._data.group)
            return shard
        if self._data.communicates:
            dist.all_reduce(self._gradients, group=self._data.group)
        return self._gradients


def collect_gradients(parameters: Iterable[nn.Parameter], buffer: torch.Tensor) -> list[torch.Tensor]:
    """Let the gradients of `parameters` be summed in `buffer` (fp32), and return each one's part of it."""
    parts: list[torch.Tensor] = []
    first = 0
    for value in parameters:
        parts.append(buffer[first : first + value.numel()].view_as(value))
        if value.dtype == torch.float32:
            value.grad = parts[-1]
        else:
            value.register_post_accumulate_grad_hook(_Collector(parts[-1]))
        first += value.numel()
    return parts


class _Collector:
    """Adds a parameter's gradient to its fp32 sum and frees it."""

    def __init__(self, part: torch.Tensor) -> None:
        self._part = part

    @torch.no_grad()
    def __call__(self, value: torch.Tensor) -> None:
        if value.grad is not None:
            self._part.add_(value.grad)
            value.grad = None


class BucketOptimizer:
    """All parameters of one rank, in buckets: replicated states, or sharded over the data group."""

    def __init__(self, module: nn.Module, copies: Copies, sharded: bool, divisor: int) -> None:
        self._copies, self._sharded = copies, sharded
        self._buckets = {
            kind: Bucket(values, copies[kind][1], sharded, divisor)
            for kind, values in buckets_of(module.parameters()).items()
        }

    def clear_gradients(self) -> None:
        """Zero all gradients."""
        for bucket in self._buckets.values():
            bucket.clear_gradients()

    def step(self, learning_rate: float) -> float:
        """Update everything; return this rank's part of the squared gradient norm, each value counted once."""
        for kind, bucket in self._buckets.items():
            bucket.collect()
            bucket.sum_gradients(self._copies[kind][0])
        return math.fsum(bucket.step(learning_rate) * self._counts(kind) for kind, bucket in self._buckets.items())

    def deviating_ranks(self) -> set[int]:
        """Return the ranks of this rank's replicas whose weights differ; every rank must call this."""
        return {rank for bucket in self._buckets.values() for rank in bucket.deviating_ranks()}

    def _counts(self, kind: Kind) -> bool:
        same, data = self._copies[kind]
        return same.rank == 0 and (data.rank == 0 or self._sharded)


def buckets_of(parameters: Iterable[nn.Parameter]) -> dict[Kind, list[nn.Parameter]]:
    """Group parameters by kind of placement, in order."""
    buckets: dict[Kind, list[nn.Parameter]] = {}
    for value in parameters:
        buckets.setdefault(placement_of(value).kind, []).append(value)
    return buckets
