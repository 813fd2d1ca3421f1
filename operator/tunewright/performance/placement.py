"""Where the ranks of a group sit: how many share a scale-up domain, and how many domains the group spans.

Called by `collectives` and the communication formulas. Rank order is T, C, E inside the node first, then D, then P,
as Megatron lays ranks out.
"""

from dataclasses import dataclass

import numpy as np

from tunewright.domain.config_batch import ConfigBatch, IntArray
from tunewright.domain.degrees import Degrees
from tunewright.domain.hardware import Cluster
from tunewright.domain.problem import TuningProblem

_RACK_SCALE = 16
"""A scale-up domain above this many devices spans nodes (72 in a GB200 rack); below, the node bounds it."""


def domain_size(cluster: Cluster) -> int:
    """Return how many consecutive ranks reach each other over scale-up links."""
    domain = cluster.accelerator.scale_up_domain
    if domain <= _RACK_SCALE:
        return min(domain, cluster.gpus_per_node)
    # A job's nodes fill whole racks; ranks are a power of two there, so the largest one inside the rack counts.
    usable: int = 2 ** (domain.bit_length() - 1)
    return max(usable, cluster.gpus_per_node)


@dataclass(frozen=True, eq=False)
class Group:
    """A communication group per row: `size` ranks, `inside` of them in each scale-up domain, `outside` domains."""

    size: IntArray
    inside: IntArray

    @property
    def outside(self) -> IntArray:
        """Domains that the group spans."""
        spans: IntArray = -(-self.size // self.inside)
        return spans

    @classmethod
    def of(cls, cluster: Cluster, size: IntArray, stride: IntArray) -> "Group":
        """Place groups of `size` ranks that are `stride` apart."""
        room = np.maximum(domain_size(cluster) // np.maximum(stride, 1), 1)
        return cls(size=np.maximum(size, 1), inside=np.minimum(np.maximum(size, 1), room))


@dataclass(frozen=True, eq=False)
class Groups:
    """The groups of every row."""

    tensor: Group
    context: Group
    expert: Group
    expert_tensor: Group
    data: Group
    """Data and context ranks together: over these gradients and optimizer states are spread."""
    expert_data: Group
    neighbours: Group
    """Two adjacent pipeline ranks."""

    @classmethod
    def of(cls, problem: TuningProblem, batch: ConfigBatch) -> "Groups":
        """Place every group of every row."""
        cluster, degrees = problem.cluster, Degrees.of(problem, batch)
        tensor, context = batch.tensor_parallel_size, batch.context_parallel_size
        expert, expert_tensor = batch.expert_parallel_size, batch.expert_tensor_parallel_size
        one, two = np.ones_like(tensor), np.full_like(tensor, 2)
        stage = np.maximum(cluster.world_size // batch.pipeline_parallel_size, 1)
        return cls(
            tensor=Group.of(cluster, tensor, one),
            context=Group.of(cluster, context, tensor),
            expert=Group.of(cluster, expert, expert_tensor),
            expert_tensor=Group.of(cluster, expert_tensor, one),
            data=Group.of(cluster, degrees.data_parallel_size * context, tensor),
            expert_data=Group.of(cluster, degrees.expert_data_parallel_size, expert * expert_tensor),
            neighbours=Group.of(cluster, np.where(batch.pipeline_parallel_size > 1, two, one), stage),
        )
