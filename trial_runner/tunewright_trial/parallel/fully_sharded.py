"""FSDP2: torch's fully_shard over the data group, with AdamW on the shards. Used by `training` for optimizer fsdp2.

Weights, gradients and states are sharded; every layer is gathered for its forward and again for its backward pass,
and its gradients are reduced after each micro batch.
"""

import math

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from tunewright_trial.layers.model_chunk import ModelChunk
from tunewright_trial.layers.parameters import placement_of
from tunewright_trial.layers.split import Split
from tunewright_trial.parallel.adam import AdamState
from tunewright_trial.parallel.optimizer import Copies


class FullyShardedOptimizer:
    """Shards a whole model of one pipeline stage and updates this rank's shards."""

    def __init__(self, module: ModelChunk, copies: Copies, device: torch.device) -> None:
        self._copies = copies
        placements = [placement_of(value) for value in module.parameters()]
        _shard(module, copies["split"][1], device)
        self._parameters = list(module.parameters())
        for value, placement in zip(self._parameters, placements, strict=True):
            value.placement = placement  # fully_shard made a new parameter of each
        self._adam = AdamState([_local(value).float().clone() for value in self._parameters])

    def clear_gradients(self) -> None:
        """Drop all gradients: the next backward pass allocates them."""
        for value in self._parameters:
            value.grad = None

    def step(self, learning_rate: float) -> float:
        """Sum what fully_shard does not know of, update, and return this rank's part of the squared norm."""
        gradients = [self._gradient(value) for value in self._parameters]
        self._adam.update(gradients, learning_rate)
        with torch.no_grad():
            for value, master in zip(self._parameters, self._adam.masters, strict=True):
                _local(value).copy_(master)
        counted = zip(self._parameters, gradients, strict=True)
        return math.fsum(float(part.square().sum()) for value, part in counted if self._held_elsewhere(value).rank == 0)

    def deviating_ranks(self) -> set[int]:
        """Return nobody: each weight is on one rank alone."""
        return set()

    def _gradient(self, value: nn.Parameter) -> torch.Tensor:
        gradient = torch.zeros_like(_local(value)) if value.grad is None else _local(value.grad)
        gradient = gradient.float()
        same = self._held_elsewhere(value)
        if same.communicates:
            dist.all_reduce(gradient, group=same.group)
        return gradient

    def _held_elsewhere(self, value: nn.Parameter) -> Split:
        """Return the ranks that hold `value` for other tokens or heads.

        Experts are never split here, so that each tensor rank has all of them for its own tokens.
        """
        kind = placement_of(value).kind
        return self._copies["replicated" if kind == "expert" else kind][0]


def _shard(module: ModelChunk, data: Split, device: torch.device) -> None:
    """Shard layer by layer, then what is left: embedding and head."""
    group = data.group if data.communicates else dist.new_group([dist.get_rank()], use_local_synchronization=True)
    mesh = DeviceMesh.from_group(group, device.type)
    policy = MixedPrecisionPolicy(reduce_dtype=torch.float32)
    for layer in module.layers.values():
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(module, mesh=mesh, mp_policy=policy)


def _local(value: torch.Tensor) -> torch.Tensor:
    local: torch.Tensor = value.to_local() if hasattr(value, "to_local") else value
    return local
