"""Quantities that follow from a problem and a batch of configurations: degrees, micro batches, tokens per rank.

Symbols as in the Megatron papers: T tensor, P pipeline, V virtual pipeline, C context, E expert, ET expert tensor,
W world size. Values of illegal rows are meaningless but finite, so that rules may read them.
"""

from dataclasses import dataclass

import numpy as np

from tunewright.domain.config_batch import ConfigBatch, IntArray
from tunewright.domain.problem import TuningProblem


@dataclass(frozen=True)
class Degrees:
    """Derived counts, one value per row. Divisions round down; legality checks the remainders."""

    data_parallel_size: IntArray
    """W / (T·C·P): replicas of the data loader, at least 1."""
    expert_data_parallel_size: IntArray
    """W / (ET·E·P), at least 1."""
    num_micro_batches: IntArray
    """B / (b·D), at least 1."""
    sequence_slice: IntArray
    """Tokens of one sequence on one rank: S / C."""
    tokens_per_micro_batch: IntArray
    """b·S / C: tokens that one forward pass sees on a rank, before the tensor split."""

    @classmethod
    def of(cls, problem: TuningProblem, batch: ConfigBatch) -> "Degrees":
        """Derive the degrees of every row."""
        world = problem.world_size
        model_ranks = batch.tensor_parallel_size * batch.context_parallel_size * batch.pipeline_parallel_size
        expert_ranks = batch.expert_tensor_parallel_size * batch.expert_parallel_size * batch.pipeline_parallel_size
        data = np.maximum(world // model_ranks, 1)
        micro_batches = np.maximum(problem.global_batch_size // (batch.micro_batch_size * data), 1)
        sequence_slice = np.maximum(problem.sequence_length // batch.context_parallel_size, 1)
        return cls(
            data_parallel_size=data,
            expert_data_parallel_size=np.maximum(world // expert_ranks, 1),
            num_micro_batches=micro_batches,
            sequence_slice=sequence_slice,
            tokens_per_micro_batch=batch.micro_batch_size * sequence_slice,
        )
