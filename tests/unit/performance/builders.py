"""Values for the performance tests: accelerators, models and problems with a few fields to turn. No test code."""

from collections.abc import Mapping
from typing import Any

from tunewright.domain.config_batch import ConfigBatch
from tunewright.domain.hardware import Accelerator, Cluster, Network
from tunewright.domain.model_architecture import MixtureOfExperts, ModelArchitecture, MultiLatentAttention
from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import TrainingConfig


def an_accelerator(**changes: object) -> Accelerator:
    fields: dict[str, Any] = {
        "name": "mesh-of-eight",
        "vendor": "amd",
        "compute_units": 256,
        "peak_flops_per_second": {"bf16": 2.5e15, "fp8": 5.0e15, "fp32": 1.25e15},
        "matmul_efficiency": 0.6,
        "hbm_capacity_bytes": 288 * 2**30,
        "hbm_bytes_per_second": 8.0e12,
        "scale_up_bytes_per_second": 560e9,
        "scale_up_efficiency": 1.0,
        "scale_up_is_mesh": True,
    }
    return Accelerator(**(fields | changes))


def a_cluster(nodes: int = 8, gpus_per_node: int = 8, **changes: object) -> Cluster:
    network = Network(name="roce", bytes_per_second_per_gpu=50e9, efficiency=1.0)
    return Cluster(nodes=nodes, gpus_per_node=gpus_per_node, accelerator=an_accelerator(**changes), network=network)


def a_dense_model(**changes: object) -> ModelArchitecture:
    """Llama-3-8B."""
    fields: dict[str, Any] = {
        "name": "dense",
        "num_layers": 32,
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "ffn_hidden_size": 14336,
        "vocabulary_size": 128256,
    }
    return ModelArchitecture(**(fields | changes))


def a_moe_model(**changes: object) -> ModelArchitecture:
    """Mixtral 8x22B."""
    experts = MixtureOfExperts(num_experts=8, experts_per_token=2, expert_ffn_hidden_size=16384)
    fields: dict[str, Any] = {
        "name": "moe",
        "num_layers": 56,
        "hidden_size": 6144,
        "num_attention_heads": 48,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "ffn_hidden_size": 16384,
        "vocabulary_size": 32768,
        "experts": experts,
    }
    return ModelArchitecture(**(fields | changes))


def a_latent_model(**changes: object) -> ModelArchitecture:
    """Shaped like DeepSeek-V2-Lite."""
    fields: dict[str, Any] = {
        "name": "latent",
        "num_layers": 28,
        "hidden_size": 2048,
        "num_attention_heads": 16,
        "num_key_value_heads": 16,
        "head_dim": 128,
        "ffn_hidden_size": 10944,
        "vocabulary_size": 102400,
        "latent_attention": MultiLatentAttention(
            query_rank=0, key_value_rank=512, unrotated_head_dim=128, rotated_head_dim=64, value_head_dim=128
        ),
        "experts": MixtureOfExperts(
            num_experts=64,
            experts_per_token=6,
            expert_ffn_hidden_size=1408,
            shared_expert_ffn_hidden_size=2816,
            num_leading_dense_layers=1,
        ),
    }
    return ModelArchitecture(**(fields | changes))


def a_problem(model: ModelArchitecture | None = None, **changes: object) -> TuningProblem:
    fields: dict[str, Any] = {
        "model": model or a_dense_model(),
        "sequence_length": 8192,
        "global_batch_size": 512,
        "cluster": a_cluster(),
    }
    return TuningProblem(**(fields | changes))


def a_batch(*changes: Mapping[str, Any]) -> ConfigBatch:
    """One row for each set of changes to the default configuration."""
    return ConfigBatch.of([TrainingConfig(**change) for change in changes])
