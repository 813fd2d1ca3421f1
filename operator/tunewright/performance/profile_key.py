"""What a single-node profile depends on, so that a profile is never taken twice. Called by planner and `compute`.

Per-rank shapes (model, micro batch, sequence and context slice, tensor and expert split), precision, dispatcher,
recomputation, implementation, sync-free stage, loss fusion. Schedule, pipeline depth, data parallelism and overlap
enter a projection by simulation and are not part of it.
"""

import hashlib
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from tunewright.domain.config_batch import ConfigBatch, IntArray
from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import TrainingConfig
from tunewright.domain.value import canonical_json

KEY_FIELDS = (
    "tensor_parallel_size",
    "context_parallel_size",
    "expert_parallel_size",
    "expert_tensor_parallel_size",
    "micro_batch_size",
    "recompute_granularity",
    "recompute_modules",
    "moe_dispatcher",
    "precision",
    "cross_entropy_fusion",
    "sync_free_stage",
)
"""Fields that change what one rank computes or sends inside the node. How many layers of a chunk `full` recomputes
changes no layer's time: it enters the projection."""


def profile_groups(problem: TuningProblem, batch: ConfigBatch) -> tuple[IntArray, IntArray]:
    """Return the first row of each distinct profile key, and for every row the position of its key there."""
    return batch.distinct(_fields(problem))


def profile_keys(problem: TuningProblem, batch: ConfigBatch) -> NDArray[np.object_]:
    """Return the profile key of every row as 16 hexadecimal digits, equal exactly where the profile is the same."""
    first, index = profile_groups(problem, batch)
    facts = canonical_json(_problem_facts(problem))
    names = {TrainingConfig.model_fields[name].alias or name: name for name in _fields(problem)}
    keys = [_digest(facts, names, batch.config(int(row))) for row in first]
    return np.array(keys, dtype=object)[index]


def profile_key(problem: TuningProblem, config: TrainingConfig) -> str:
    """Return the profile key of one configuration."""
    return str(profile_keys(problem, ConfigBatch.of([config]))[0])


def _fields(problem: TuningProblem) -> tuple[str, ...]:
    """Without experts, the fields that only concern experts do not tell profiles apart."""
    if problem.model.is_moe:
        return KEY_FIELDS
    expert_only = {"expert_parallel_size", "expert_tensor_parallel_size", "moe_dispatcher", "sync_free_stage"}
    return tuple(name for name in KEY_FIELDS if name not in expert_only)


def _problem_facts(problem: TuningProblem) -> dict[str, object]:
    return {
        "model": problem.model.to_json(),
        "sequenceLength": problem.sequence_length,
        "implementation": problem.implementation,
        "routingImbalance": problem.routing_imbalance,
        "accelerator": problem.cluster.accelerator.name,
        "gpusPerNode": problem.cluster.gpus_per_node,
    }


def _digest(facts: str, names: Mapping[str, str], config: TrainingConfig) -> str:
    chosen = {alias: getattr(config, name) for alias, name in names.items()}
    return hashlib.sha256(f"{facts}{canonical_json(chosen)}".encode()).hexdigest()[:16]
