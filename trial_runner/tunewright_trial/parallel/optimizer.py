"""AdamW over flat buffers, with gradients reduced over the data group and states sharded over it (ZeRO-1).

Parameters are grouped by the ranks that share them (`buckets_of`). Each bucket keeps its parameters and gradients in
one buffer each, so that a step is one reduction, one fused update and one gather.
"""

import math
from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import nn
from torch.optim.adamw import adamw

from tunewright_trial.layers.parameters import Kind, placement_of
from tunewright_trial.layers.split import Split

LEARNING_RATE = 1e-3


class Bucket:
    """Parameters that the same ranks share. `divisor` turns the sum over replicas into the mean of the batch."""

    def __init__(self, parameters: list[nn.Parameter], data: Split, sharded: bool, divisor: int) -> None:
        self._data, self._sharded, self._divisor = data, sharded and data.communicates, divisor
        shards = data.size if self._sharded else 1
        size = sum(value.numel() for value in parameters)
        padded = -(-size // shards) * shards
        first = parameters[0]
        self._values = first.new_zeros(padded, requires_grad=False)
        self._gradients = first.new_zeros(padded, requires_grad=False)
        self._adopt(parameters)
        self._own = slice(0, padded)
        if self._sharded:
            length = padded // shards
            self._own = slice(data.rank * length, (data.rank + 1) * length)
        self._adam = AdamState(self._values[self._own].float().clone())

    def _adopt(self, parameters: list[nn.Parameter]) -> None:
        """Move the parameters and their gradients into the buffers."""
        first = 0
        for value in parameters:
            part = slice(first, first + value.numel())
            with torch.no_grad():
                self._values[part].copy_(value.flatten())
            value.data = self._values[part].view_as(value)
            value.grad = self._gradients[part].view_as(value)
            first += value.numel()

    def clear_gradients(self) -> None:
        """Zero the gradients in place: the parameters keep looking at the buffer."""
        self._gradients.zero_()

    def sum_gradients(self, group: Split) -> None:
        """Add the gradients of the ranks that hold the same parameters for different tokens."""
        if group.communicates:
            dist.all_reduce(self._gradients, group=group.group)

    def step(self) -> float:
        """Reduce, update this rank's shard, gather. Return the sum of squares of the gradients in this shard."""
        gradient = self._reduced().div_(self._divisor)
        self._adam.update(gradient)
        own = self._values[self._own]
        own.copy_(self._adam.master)
        if self._sharded:
            dist.all_gather_into_tensor(self._values, own.clone(), group=self._data.group)
        return float(gradient.square().sum())

    def _reduced(self) -> torch.Tensor:
        gradients = self._gradients.float() if self._gradients.dtype != torch.float32 else self._gradients.clone()
        if self._sharded:
            shard = torch.empty_like(self._adam.master)
            dist.reduce_scatter_tensor(shard, gradients, group=self._data.group)
            return shard
        if self._data.communicates:
            dist.all_reduce(gradients, group=self._data.group)
        return gradients


class AdamState:
    """fp32 master weights and moments of one shard.

    Calls torch's functional AdamW: constructing a `torch.optim` object imports torch's compiler, which takes longer
    than many a trial.
    """

    def __init__(self, master: torch.Tensor) -> None:
        self.master = master
        self._first, self._second = torch.zeros_like(master), torch.zeros_like(master)
        self._steps = torch.zeros((), dtype=torch.float32, device=master.device)

    @torch.no_grad()
    def update(self, gradient: torch.Tensor) -> None:
        """Take one fused step."""
        adamw(
            [self.master],
            [gradient],
            [self._first],
            [self._second],
            [],
            [self._steps],
            fused=True,
            amsgrad=False,
            beta1=0.9,
            beta2=0.95,
            lr=LEARNING_RATE,
            weight_decay=0.0,
            eps=1e-8,
            maximize=False,
        )


class Optimizer:
    """All parameters of one rank, in buckets."""

    def __init__(self, module: nn.Module, tensor: Split, data: Split, expert_data: Split, sharded: bool) -> None:
        self._tensor, self._sharded = tensor, sharded
        self._copies: dict[Kind, Split] = {"split": data, "replicated": data, "expert": expert_data}
        self._buckets = {
            kind: Bucket(values, self._copies[kind], sharded, data.size)
            for kind, values in buckets_of(module.parameters()).items()
        }

    def clear_gradients(self) -> None:
        """Zero all gradients."""
        for bucket in self._buckets.values():
            bucket.clear_gradients()

    def step(self) -> float:
        """Update everything; return this rank's part of the squared gradient norm, each value counted once."""
        replicated = self._buckets.get("replicated")
        if replicated is not None:
            replicated.sum_gradients(self._tensor)
        return math.fsum(bucket.step() * self._counts(kind) for kind, bucket in self._buckets.items())

    def _counts(self, kind: Kind) -> bool:
        first_copy = self._sharded or self._copies[kind].rank == 0
        return first_copy and (kind != "replicated" or self._tensor.rank == 0)


def buckets_of(parameters: Iterable[nn.Parameter]) -> dict[Kind, list[nn.Parameter]]:
    """Group parameters by kind of placement, in order."""
    buckets: dict[Kind, list[nn.Parameter]] = {}
    for value in parameters:
        buckets.setdefault(placement_of(value).kind, []).append(value)
    return buckets
