"""Where a rank stands in the job: its coordinates and the groups that it belongs to.

Rank order is Megatron's: tensor first, then data, then pipeline; the expert group takes consecutive ranks of the
tensor and data ranks of one stage. Context parallelism is not run by this version.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch.distributed as dist

from tunewright.domain.training_config import TrainingConfig
from tunewright_trial.failures import unsupported
from tunewright_trial.layers.split import Split


@dataclass(frozen=True)
class Layout:
    """Degrees of one job of `world` ranks."""

    world: int
    tensor: int
    pipeline: int
    expert: int

    @classmethod
    def of(cls, config: TrainingConfig, world: int) -> "Layout":
        """Derive the layout; raise Unsupported where `world` ranks cannot be split like that."""
        if config.context_parallel_size > 1 or config.expert_tensor_parallel_size > 1:
            raise unsupported("context and expert tensor parallelism are not measured by this runner: set them to 1")
        layout = cls(world, config.tensor_parallel_size, config.pipeline_parallel_size, config.expert_parallel_size)
        if world % (layout.tensor * layout.pipeline) or layout.stage_ranks % layout.expert:
            raise unsupported(f"{world} ranks cannot be split by tensor {layout.tensor}, pipeline {layout.pipeline}")
        return layout

    @property
    def stage_ranks(self) -> int:
        """Ranks of one pipeline stage: T·D."""
        return self.world // self.pipeline

    @property
    def data(self) -> int:
        """Replicas of the data loader: D."""
        return self.stage_ranks // self.tensor

    def coordinates(self, rank: int) -> tuple[int, int, int]:
        """Return the tensor, data and pipeline rank."""
        return rank % self.tensor, rank // self.tensor % self.data, rank // self.stage_ranks

    def group_ranks(self, name: str) -> list[list[int]]:
        """Return every group of one kind, as lists of global ranks in group order."""
        if name == "tensor":
            return _blocks(range(self.world), self.tensor)
        if name == "expert":
            return _blocks(range(self.world), self.expert)
        if name == "pipeline":
            return [list(range(first, self.world, self.stage_ranks)) for first in range(self.stage_ranks)]
        stride = self.tensor if name == "data" else self.expert
        stages = _blocks(range(self.world), self.stage_ranks)
        return [stage[first::stride] for stage in stages for first in range(stride)]


def _blocks(ranks: Sequence[int], size: int) -> list[list[int]]:
    return [list(ranks[first : first + size]) for first in range(0, len(ranks), size)]


@dataclass(frozen=True)
class Groups:
    """The groups of this rank as splits; a group of one rank has no process group."""

    tensor: Split
    expert: Split
    data: Split
    expert_data: Split
    pipeline: Split

    @classmethod
    def create(cls, layout: Layout, rank: int) -> "Groups":
        """Create all process groups. Every rank must call this, in the same order."""
        names = ("tensor", "expert", "data", "expert_data", "pipeline")
        return cls(**{name: _split_of(layout.group_ranks(name), rank) for name in names})


def _split_of(groups: list[list[int]], rank: int) -> Split:
    mine: list[int] = next(ranks for ranks in groups if rank in ranks)
    if len(mine) == 1:
        return Split()
    created: dict[int, Any] = {ranks[0]: dist.new_group(ranks) for ranks in groups}
    return Split(len(mine), mine.index(rank), created[mine[0]])
