"""The memory filter refuses what Megatron-LM's own arithmetic puts well beyond the device.

The arithmetic is that of `megatron/training/theoretical_memory_usage.py`, written again in plain Python: 18 bytes a
parameter, 6 + 12/D·C with the distributed optimizer, and 18 + 4·F/H bytes for each activation of a layer that
recomputes its attention core.
"""

import itertools

import pytest

from tests.unit.memory.examples import H100, LLAMA_3_8B, LLAMA_3_70B, MI355X, problem
from tunewright.domain.config_batch import ConfigBatch
from tunewright.domain.hardware import Accelerator
from tunewright.domain.model_architecture import ModelArchitecture
from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import TrainingConfig
from tunewright.memory import estimate, fit

SIZES = (1, 2, 4, 8)


def megatron_parameters(model: ModelArchitecture, config: TrainingConfig) -> float:
    """Parameters of the first pipeline rank."""
    hidden, ratio = model.hidden_size, model.num_key_value_heads / model.num_attention_heads
    layer = 2 * hidden * hidden * (1 + ratio + 1.5 * model.ffn_hidden_size / hidden)
    vocabularies = 2 if config.pipeline_parallel_size == 1 else 1
    layers = model.num_layers / config.pipeline_parallel_size
    return (layer * layers + vocabularies * model.vocabulary_size * hidden) / config.tensor_parallel_size


def megatron_activations(posed: TuningProblem, config: TrainingConfig) -> float:
    """Bytes of the first pipeline rank's layers, for as many micro batches as stages, if the step has them."""
    model = posed.model
    data = posed.world_size // (config.tensor_parallel_size * config.pipeline_parallel_size)
    micro_batches = max(posed.global_batch_size // (config.micro_batch_size * data), 1)
    in_flight = min(1.0, micro_batches / config.pipeline_parallel_size)
    tokens = posed.sequence_length * config.micro_batch_size
    layer = tokens * model.hidden_size * (18 + 4 * model.ffn_hidden_size / model.hidden_size)
    return in_flight * layer * model.num_layers / config.tensor_parallel_size


def megatron_bytes(posed: TuningProblem, config: TrainingConfig) -> float:
    shards = posed.world_size / (config.tensor_parallel_size * config.pipeline_parallel_size)
    states = 6 + 12 / shards if config.optimizer == "distributed" else 18
    return states * megatron_parameters(posed.model, config) + megatron_activations(posed, config)


@pytest.mark.parametrize("device", [H100, MI355X], ids=lambda device: device.name)
@pytest.mark.parametrize(("model", "ranks"), [(LLAMA_3_8B, 8), (LLAMA_3_70B, 64)], ids=["8b", "70b"])
def test_what_megatron_puts_ten_percent_beyond_the_device_is_filtered(
    model: ModelArchitecture, ranks: int, device: Accelerator
) -> None:
    posed = problem(model, ranks, device)
    configs = [
        TrainingConfig(
            tensor_parallel_size=tensor,
            pipeline_parallel_size=pipeline,
            micro_batch_size=micro,
            optimizer=optimizer,
            overlap_param_gather=False,
        )
        for tensor, pipeline, micro in itertools.product(SIZES, SIZES, (1, 2, 4, 8, 16, 32, 64))
        for optimizer in ("distributed", "replicated")
        if tensor * pipeline <= ranks
    ]
    batch = ConfigBatch.of(configs)
    filtered = fit(posed, estimate(posed, batch)).filtered
    beyond = [megatron_bytes(posed, config) > 1.1 * device.hbm_capacity_bytes for config in configs]
    assert sum(beyond) > 5
    assert [
        config for config, too_large, refused in zip(configs, beyond, filtered, strict=True) if too_large > refused
    ] == []
