"""Builders of problems, spaces and settings with defaults that a test changes by name."""

from functools import cache
from typing import Any

from tunewright.domain.catalog_loader import shipped_catalog
from tunewright.domain.hardware import Cluster
from tunewright.domain.model_architecture import MixtureOfExperts, ModelArchitecture
from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import TrainingConfig
from tunewright.planner.settings import Budget, ExploreSettings, LLMSettings, PlannerSettings, ValidationSettings
from tunewright.search.space import Space, build_space


def a_model(**changes: object) -> ModelArchitecture:
    """Return a small dense model: eight layers, eight heads."""
    fields: dict[str, Any] = {
        "name": "small",
        "num_layers": 8,
        "hidden_size": 1024,
        "num_attention_heads": 8,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "ffn_hidden_size": 4096,
        "vocabulary_size": 32000,
    }
    return ModelArchitecture(**(fields | changes))


def a_moe_model(**changes: object) -> ModelArchitecture:
    """Return a small model with four experts."""
    experts = MixtureOfExperts(num_experts=4, experts_per_token=2, expert_ffn_hidden_size=2048)
    return a_model(**({"name": "small-moe", "ffn_hidden_size": 0, "experts": experts} | changes))


def a_cluster(accelerator: str = "mi355x", *, nodes: int = 2, gpus_per_node: int = 4, **changes: object) -> Cluster:
    """Return a cluster of catalog devices; `changes` go to the accelerator."""
    catalog = shipped_catalog()
    device = catalog.accelerator(accelerator).model_copy(update=changes)
    network = catalog.network("loopback" if accelerator == "cpu" else "mi355x-pollara")
    return Cluster(nodes=nodes, gpus_per_node=gpus_per_node, accelerator=device, network=network)


def a_problem(**changes: object) -> TuningProblem:
    """Return a problem of eight ranks and a few hundred configurations."""
    fields: dict[str, Any] = {
        "model": a_model(),
        "sequence_length": 2048,
        "global_batch_size": 64,
        "cluster": a_cluster(),
    }
    return TuningProblem(**(fields | changes))


def mixtral_problem(**changes: object) -> TuningProblem:
    """Return Mixtral 8x22B on 64 MI355X: batch 512, sequence 8192."""
    model = shipped_catalog().model("mixtral-8x22b")
    cluster = a_cluster(nodes=8, gpus_per_node=8)
    fields: dict[str, Any] = {
        "model": model,
        "sequence_length": 8192,
        "global_batch_size": 512,
        "cluster": cluster,
    }
    return TuningProblem(**(fields | changes))


def settings_of(problem: TuningProblem, **changes: object) -> PlannerSettings:
    """Return settings with small budgets and without an LLM."""
    fields: dict[str, Any] = {
        "baseline": TrainingConfig(
            precision=problem.precision, cross_entropy_fusion=problem.backend in ("primus", "megatron")
        ),
        "explore": ExploreSettings(proposals_per_round=2, patience=2),
        "validation": ValidationSettings(nodes=problem.cluster.nodes, top_k=2),
        "budget": Budget(max_trials=12),
        "profile_gpus": problem.cluster.gpus_per_node,
    }
    return PlannerSettings(**(fields | changes))


def an_llm(**changes: object) -> LLMSettings:
    """Return an LLM with prices."""
    fields: dict[str, Any] = {
        "model": "openai/test",
        "max_output_tokens": 500,
        "input_usd_per_million_tokens": 1.0,
        "output_usd_per_million_tokens": 2.0,
    }
    return LLMSettings(**(fields | changes))


@cache
def small_space() -> Space:
    """Return the space of `a_problem` under `settings_of` its defaults; shared, since nothing changes it."""
    problem = a_problem()
    return build_space(problem, settings_of(problem))
