"""Models and batches at the limits of what is accepted: every figure stays finite and positive, nothing wraps."""

from typing import Any

import numpy as np
import pytest

from tests.support.kube_documents import a_problem
from tunewright.domain.config_batch import ConfigBatch
from tunewright.domain.model_architecture import ModelArchitecture
from tunewright.domain.parameters import ParameterCounts
from tunewright.domain.training_config import TrainingConfig
from tunewright.memory.estimate import estimate as estimate_memory
from tunewright.memory.screening import screen
from tunewright.performance.step import estimate as estimate_step

LARGEST: dict[str, Any] = {
    "name": "largest",
    "num_layers": 4096,
    "hidden_size": 2**18,
    "num_attention_heads": 4096,
    "num_key_value_heads": 4096,
    "head_dim": 4096,
    "ffn_hidden_size": 2**20,
    "vocabulary_size": 2**24,
}
EXPERTS = {
    "num_experts": 2**14,
    "experts_per_token": 1024,
    "expert_ffn_hidden_size": 4,
    "shared_expert_ffn_hidden_size": 2**20,
}
LATENT = {
    "query_rank": 2**18,
    "key_value_rank": 2**18,
    "unrotated_head_dim": 4096,
    "rotated_head_dim": 4096,
    "value_head_dim": 4096,
}
MODELS = {
    "dense": LARGEST,
    "experts": LARGEST | {"experts": EXPERTS},
    "wide experts": LARGEST
    | {"num_layers": 1, "experts": EXPERTS | {"num_experts": 1024, "expert_ffn_hidden_size": 2**20}},
    "latent": LARGEST | {"latent_attention": LATENT},
}


@pytest.mark.parametrize("backend", ["primus", "builtin"])
@pytest.mark.parametrize("sizes", MODELS.values(), ids=MODELS.keys())
def test_nothing_wraps_at_the_limits(sizes: dict[str, Any], backend: str) -> None:
    problem = a_problem().model_copy(
        update={
            "model": ModelArchitecture(**sizes),
            "sequence_length": 2**24,
            "global_batch_size": 2**24,
            "backend": backend,
            "implementation": "torch" if backend == "builtin" else "transformer-engine",
        }
    )
    # A micro batch of the most tokens that one rank can be asked for.
    configs = [TrainingConfig(micro_batch_size=size, recompute_granularity="full") for size in (1, 65_536)]
    batch = ConfigBatch.of([*configs, *(TrainingConfig(micro_batch_size=size) for size in (1, 65_536))])
    floor = 2 * ParameterCounts.of(problem.model).total / problem.cluster.gpus_per_node
    allocated = screen(problem, batch).allocated_bytes
    assert np.all(np.isfinite(allocated))
    assert np.all(allocated > floor)
    breakdown = estimate_memory(problem, batch).breakdown(3)
    assert all(value >= 0 for rank in breakdown for value in rank.values())
    step = estimate_step(problem, batch)
    assert np.all(np.isfinite(step.step_seconds))
    assert all(np.all(seconds >= 0) for seconds in step.parts.values())
    assert np.all(step.step_seconds > 1e6)
