"""Where a rank stands in the job: its coordinates and the groups that it belongs to.

Rank order is Megatron's: tensor first, then context, data, pipeline. Experts fold over the same ranks of a stage in an
order of their own: expert tensor, expert, expert data.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch.distributed as dist

from tunewright.domain.model_architecture import ModelArchitecture
from tunewright.domain.training_config import V_SHAPED_SCHEDULES, TrainingConfig
from tunewright_trial.failures import unsupported
from tunewright_trial.layers.parameters import Kind
from tunewright_trial.layers.split import WHOLE, Split


@dataclass(frozen=True)
class Layout:
    """Degrees of one job of `world` ranks. `key_value_copies` tensor ranks share each key/value head."""

    world: int
    tensor: int = 1
    pipeline: int = 1
    expert: int = 1
    context: int = 1
    expert_tensor: int = 1
    key_value_copies: int = 1
    tied_apart: bool = False

    @classmethod
    def of(cls, config: TrainingConfig, model: ModelArchitecture, world: int) -> "Layout":
        """Derive the layout; raise Unsupported where `world` ranks cannot be split like that."""
        tensor, pipeline = config.tensor_parallel_size, config.pipeline_parallel_size
        v_shaped = config.pipeline_schedule in V_SHAPED_SCHEDULES
        layout = cls(
            world,
            tensor=tensor,
            pipeline=pipeline,
            expert=config.expert_parallel_size,
            context=config.context_parallel_size,
            expert_tensor=config.expert_tensor_parallel_size,
            key_value_copies=1 if model.latent_attention else max(tensor // model.num_key_value_heads, 1),
            tied_apart=model.tied_embeddings and pipeline > 1 and not v_shaped,
        )
        layout._check()
        return layout

    def _check(self) -> None:
        if self.world % (self.tensor * self.context * self.pipeline):
            raise unsupported(
                f"{self.world} ranks cannot be split by tensorParallelSize {self.tensor}, contextParallelSize "
                f"{self.context} and pipelineParallelSize {self.pipeline}: their product must divide the ranks"
            )
        if self.stage_ranks % (self.expert * self.expert_tensor):
            raise unsupported(
                f"the {self.stage_ranks} ranks of a stage cannot be split by expertParallelSize {self.expert} and "
                f"expertTensorParallelSize {self.expert_tensor}: their product must divide the ranks of a stage"
            )

    @property
    def stage_ranks(self) -> int:
        """Ranks of one pipeline stage: T·C·D."""
        return self.world // self.pipeline

    @property
    def data(self) -> int:
        """Replicas of the data loader: D."""
        return self.stage_ranks // (self.tensor * self.context)

    def data_rank(self, rank: int) -> int:
        """Return which share of the batch a rank works on."""
        return rank // (self.tensor * self.context) % self.data

    def group_ranks(self, name: str) -> list[list[int]]:
        """Return every group of one kind, as lists of global ranks in group order.

        `data` are the ranks that share weights other than experts: context ranks hold the same weights.
        """
        stages = _blocks(range(self.world), self.stage_ranks)
        if name == "pipeline":
            return [list(range(first, self.world, self.stage_ranks)) for first in range(self.stage_ranks)]
        if name == "edges":
            ends = [[first, first + self.world - self.stage_ranks] for first in range(self.stage_ranks)]
            return ends if self.tied_apart else [[rank] for rank in range(self.world)]
        if name == "key_value":
            return _blocks(range(self.world), self.key_value_copies)
        expert_ranks = self.expert * self.expert_tensor
        sizes_and_strides = {
            "tensor": (self.tensor, 1),
            "context": (self.context, self.tensor),
            "data": (self.stage_ranks // self.tensor, self.tensor),
            "expert_tensor": (self.expert_tensor, 1),
            "expert": (self.expert, self.expert_tensor),
            "expert_data": (self.stage_ranks // expert_ranks, expert_ranks),
        }
        return [group for stage in stages for group in _strided(stage, *sizes_and_strides[name])]


def _blocks(ranks: Sequence[int], size: int) -> list[list[int]]:
    return [list(ranks[first : first + size]) for first in range(0, len(ranks), size)]


def _strided(ranks: Sequence[int], size: int, stride: int) -> list[list[int]]:
    """Split ranks into groups of `size` that are `stride` apart."""
    return [block[first::stride] for block in _blocks(ranks, size * stride) for first in range(stride)]


@dataclass(frozen=True)
class Groups:
    """The groups of this rank as splits; a group of one rank has no process group."""

    tensor: Split
    key_value: Split
    context: Split
    expert_tensor: Split
    expert: Split
    data: Split
    expert_data: Split
    pipeline: Split
    edges: Split

    @classmethod
    def create(cls, layout: Layout, rank: int) -> "Groups":
        """Create all process groups. Every rank must call this, in the same order."""
        return cls(**{name: _split_of(layout.group_ranks(name), rank) for name in cls.__dataclass_fields__})

    def copies(self) -> dict[Kind, tuple[Split, Split]]:
        """Return, by kind of parameter, who holds it for other tokens or heads, and who for other sequences."""
        return {
            "split": (WHOLE, self.data),
            "replicated": (self.tensor, self.data),
            "key-value": (self.key_value, self.data),
            "tied": (self.edges, self.data),
            "expert": (WHOLE, self.expert_data),
        }


def _split_of(groups: list[list[int]], rank: int) -> Split:
    if max(len(ranks) for ranks in groups) == 1:
        return Split()
    created: dict[int, Any] = {ranks[0]: dist.new_group(ranks) for ranks in groups}
    mine = next((ranks for ranks in groups if rank in ranks), [rank])
    return Split() if len(mine) == 1 else Split(len(mine), mine.index(rank), created[mine[0]])
