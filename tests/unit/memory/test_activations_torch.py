"""The eager table against what autograd saves in the trial program's own layer, to the byte."""

import itertools
from typing import Any, Literal

import pytest

from tests.unit.memory.examples import CPU, architecture, problem
from tunewright.domain.config_batch import ConfigBatch
from tunewright.domain.degrees import Degrees
from tunewright.domain.model_architecture import MixtureOfExperts, ModelArchitecture, MultiLatentAttention
from tunewright.domain.training_config import RECOMPUTE_MODULES, Precision, RecomputeModule, TrainingConfig
from tunewright.memory.activations_torch import saved_bytes
from tunewright.memory.saved_bytes import total

torch = pytest.importorskip("torch")

Kind = Literal["dense", "moe"]

SEQUENCE = 32
MICRO_BATCH = 2
SHAPE: dict[str, object] = {"ffn_hidden_size": 96, "vocabulary_size": 128, "head_dim": 16}
EXPERTS = MixtureOfExperts(num_experts=8, experts_per_token=2, expert_ffn_hidden_size=48)
SHARED = EXPERTS.model_copy(update={"shared_expert_ffn_hidden_size": 32, "shared_expert_gate": True})


def small(name: str, **more: object) -> ModelArchitecture:
    return architecture(name, 2, 64, 8, 4, **{**SHAPE, **more})


def latent(query_rank: int, value_width: int) -> MultiLatentAttention:
    return MultiLatentAttention(
        query_rank=query_rank,
        key_value_rank=16,
        unrotated_head_dim=8,
        rotated_head_dim=4,
        value_head_dim=value_width,
    )


LAYERS: dict[str, tuple[ModelArchitecture, Kind]] = {
    "llama": (small("llama"), "dense"),
    "gpt": (small("gpt", gated_mlp=False, normalization="layernorm", mlp_bias=True), "dense"),
    "query-key-norm": (small("query-key-norm", query_key_norm="per-head"), "dense"),
    "sandwich": (small("sandwich", norms_per_layer=4), "dense"),
    "latent": (small("latent", latent_attention=latent(24, 8)), "dense"),
    "latent-whole-query": (small("latent-whole-query", latent_attention=latent(0, 8)), "dense"),
    "latent-wide-value": (small("latent-wide-value", latent_attention=latent(24, 12)), "dense"),
    "experts": (small("experts", experts=EXPERTS), "moe"),
    "shared-experts": (small("shared-experts", experts=SHARED), "moe"),
}


def counted(model: ModelArchitecture, kind: Kind, config: TrainingConfig) -> int:
    """Run one layer forward and sum the distinct storages that autograd saved, weights and tables left out."""
    from tunewright_trial.layers.context import LayerContext
    from tunewright_trial.layers.recompute import RecomputePolicy
    from tunewright_trial.layers.split import Split
    from tunewright_trial.layers.transformer_layer import TransformerLayer

    context = LayerContext(
        model=model,
        sequence_length=SEQUENCE,
        sequence_slice=SEQUENCE,
        micro_batch_size=config.micro_batch_size,
        dtype=torch.float32 if config.precision == "fp32" else torch.bfloat16,
        device=torch.device("cpu"),
        tensor=Split(config.tensor_parallel_size),
        recompute=RecomputePolicy(config.recompute_granularity, config.recompute_modules),
    )
    layer = TransformerLayer(context, kind, 0)
    with torch.no_grad():
        for weight in layer.parameters():
            weight.fill_(0.01)
    hidden = torch.ones(context.hidden_shape, dtype=context.dtype, requires_grad=True) * 0.5
    constants = itertools.chain(layer.parameters(), layer.buffers())
    ignored = {tensor.untyped_storage().data_ptr() for tensor in constants}
    saved: dict[int, Any] = {}

    with torch.autograd.graph.saved_tensors_hooks(
        lambda tensor: (saved.setdefault(tensor.untyped_storage().data_ptr(), tensor.untyped_storage()), tensor),
        lambda packed: packed[1],
    ):
        output = layer(hidden)
    assert output.shape == hidden.shape
    return sum(storage.nbytes() for place, storage in saved.items() if place not in ignored)


def predicted(model: ModelArchitecture, kind: Kind, config: TrainingConfig) -> float:
    posed = problem(model, 8, CPU, implementation="torch", backend="builtin", sequence_length=SEQUENCE)
    batch = ConfigBatch.of([config])
    return float(total(getattr(saved_bytes(posed, batch, Degrees.of(posed, batch)), kind), "kept")[0])


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("tensor", [1, 2])
@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_keeps_what_autograd_saves(name: str, tensor: int, precision: Precision) -> None:
    model, kind = LAYERS[name]
    config = TrainingConfig(precision=precision, tensor_parallel_size=tensor, micro_batch_size=MICRO_BATCH)
    assert predicted(model, kind, config) == counted(model, kind, config)


@pytest.mark.parametrize("module", RECOMPUTE_MODULES)
@pytest.mark.parametrize("name", ["llama", "latent", "shared-experts"])
def test_selective_recomputation_keeps_what_autograd_still_saves(name: str, module: RecomputeModule) -> None:
    model, kind = LAYERS[name]
    precisions: tuple[Precision, ...] = ("fp32", "bf16")
    for precision, tensor in itertools.product(precisions, (1, 2)):
        config = TrainingConfig(
            precision=precision,
            tensor_parallel_size=tensor,
            micro_batch_size=MICRO_BATCH,
            recompute_granularity="selective",
            recompute_modules=(module,),
        )
        assert predicted(model, kind, config) == counted(model, kind, config)


def test_a_device_with_fused_norms_keeps_less_than_a_cpu() -> None:
    from tests.unit.memory.examples import MI355X

    batch = ConfigBatch.of([TrainingConfig()])
    sizes = []
    for device in (CPU, MI355X):
        posed = problem(LAYERS["llama"][0], 8, device, implementation="torch", sequence_length=SEQUENCE)
        sizes.append(total(saved_bytes(posed, batch, Degrees.of(posed, batch)).dense, "kept")[0])
    assert sizes[0] - sizes[1] == 2 * (8 * 64 - 2 * 64) * SEQUENCE
