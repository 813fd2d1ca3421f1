"""The eager table against what autograd saves in the trial program's own layer, to the byte."""

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import pytest

from tests.unit.memory.examples import CPU, architecture, problem
from tunewright.domain.config_batch import ConfigBatch
from tunewright.domain.degrees import Degrees
from tunewright.domain.model_architecture import MixtureOfExperts, ModelArchitecture, MultiLatentAttention
from tunewright.domain.training_config import (
    RECOMPUTE_MODULES,
    Precision,
    RecomputeGranularity,
    RecomputeMethod,
    RecomputeModule,
    TrainingConfig,
    default_recompute_modules,
)
from tunewright.memory import estimate
from tunewright.memory.activations_torch import saved_bytes
from tunewright.memory.saved_bytes import PARTS, total

if TYPE_CHECKING:
    from tunewright_trial.layers.context import LayerContext

torch = pytest.importorskip("torch")

Kind = Literal["dense", "moe"]

SEQUENCE = 32
MICRO_BATCH = 2
SHAPE: dict[str, object] = {"ffn_hidden_size": 96, "vocabulary_size": 128, "head_dim": 16}
EXPERTS = MixtureOfExperts(num_experts=8, experts_per_token=2, expert_ffn_hidden_size=48)
SHARED = EXPERTS.model_copy(update={"shared_expert_ffn_hidden_size": 32, "shared_expert_gate": True})


def small(name: str, **more: object) -> ModelArchitecture:
    layers = more.pop("num_layers", 2)
    assert isinstance(layers, int)
    return architecture(name, layers, 64, 8, 4, **{**SHAPE, **more})


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
    "latent-experts": (small("latent-experts", latent_attention=latent(24, 8), experts=SHARED), "moe"),
    "plain-experts": (small("plain-experts", gated_mlp=False, experts=EXPERTS), "moe"),
}


def context_of(model: ModelArchitecture, config: TrainingConfig) -> "LayerContext":
    """The trial program's layers of one rank, with split shapes and without groups that would send anything."""
    from tunewright_trial.layers.context import LayerContext
    from tunewright_trial.layers.recompute import RecomputePolicy
    from tunewright_trial.layers.split import Split

    return LayerContext(
        model=model,
        sequence_length=SEQUENCE,
        sequence_slice=SEQUENCE,
        micro_batch_size=config.micro_batch_size,
        dtype=torch.float32 if config.precision == "fp32" else torch.bfloat16,
        device=torch.device("cpu"),
        tensor=Split(config.tensor_parallel_size),
        expert=Split(config.expert_parallel_size),
        recompute=RecomputePolicy(
            config.recompute_granularity,
            config.recompute_modules,
            config.recompute_method,
            config.recompute_num_layers,
        ),
    )


def counted(model: ModelArchitecture, kinds: Sequence[Kind], config: TrainingConfig) -> int:
    """Run the layers of a chunk and sum the distinct storages that autograd saved, weights and tables left out."""
    from tunewright_trial.layers.transformer_layer import TransformerLayer

    context = context_of(model, config)
    layer = torch.nn.ModuleList(TransformerLayer(context, kind, index) for index, kind in enumerate(kinds))
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
        output = context.recompute.run_layers(list(layer), hidden)
    assert output.shape == hidden.shape
    return sum(storage.nbytes() for place, storage in saved.items() if place not in ignored)


def predicted(model: ModelArchitecture, kind: Kind, config: TrainingConfig) -> float:
    posed = problem(model, 8, CPU, implementation="torch", backend="builtin", sequence_length=SEQUENCE)
    batch = ConfigBatch.of([config])
    return float(total(getattr(saved_bytes(posed, batch, Degrees.of(posed, batch)), kind), "kept")[0])


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("tensor", [1, 2, 4])
@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_keeps_what_autograd_saves(name: str, tensor: int, precision: Precision) -> None:
    model, kind = LAYERS[name]
    config = TrainingConfig(precision=precision, tensor_parallel_size=tensor, micro_batch_size=MICRO_BATCH)
    assert predicted(model, kind, config) == counted(model, [kind], config)


@pytest.mark.parametrize("module", RECOMPUTE_MODULES)
@pytest.mark.parametrize("name", ["llama", "latent", "shared-experts", "latent-experts"])
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
        assert predicted(model, kind, config) == counted(model, [kind], config)


@pytest.mark.parametrize("name", ["llama", "latent", "shared-experts", "latent-experts"])
def test_modules_that_pay_are_recomputed_together(name: str) -> None:
    model, kind = LAYERS[name]
    for tensor in (1, 2):
        config = TrainingConfig(
            tensor_parallel_size=tensor,
            micro_batch_size=MICRO_BATCH,
            recompute_granularity="selective",
            recompute_modules=default_recompute_modules(model),
        )
        assert predicted(model, kind, config) == counted(model, [kind], config)


@pytest.mark.parametrize("expert", [1, 2, 4, 8])
@pytest.mark.parametrize("name", ["experts", "shared-experts", "latent-experts"])
def test_a_rank_of_an_expert_group_keeps_its_share_of_balanced_rows(name: str, expert: int) -> None:
    model, kind = LAYERS[name]
    for tensor in (1, 2):
        config = TrainingConfig(tensor_parallel_size=tensor, micro_batch_size=MICRO_BATCH, expert_parallel_size=expert)
        assert predicted(model, kind, config) == counted(model, [kind], config)


MIXED = small(
    "mixed",
    num_layers=4,
    latent_attention=latent(24, 8),
    experts=SHARED.model_copy(update={"num_leading_dense_layers": 1}),
)
CHUNKS: dict[str, tuple[ModelArchitecture, list[Kind]]] = {
    "llama": (small("llama", num_layers=4), ["dense"] * 4),
    "mixed": (MIXED, ["dense", "moe", "moe", "moe"]),
}


@pytest.mark.parametrize(
    ("granularity", "method", "layers"),
    [
        ("none", "uniform", 1),
        ("full", "uniform", 1),
        ("full", "uniform", 2),
        ("full", "uniform", 3),
        ("full", "block", 1),
        ("full", "block", 3),
        ("full", "block", 4),
    ],
)
@pytest.mark.parametrize("tensor", [1, 2])
@pytest.mark.parametrize("name", CHUNKS)
def test_a_chunk_keeps_what_autograd_saves(
    name: str, tensor: int, granularity: RecomputeGranularity, method: RecomputeMethod, layers: int
) -> None:
    model, kinds = CHUNKS[name]
    config = TrainingConfig(
        tensor_parallel_size=tensor,
        micro_batch_size=MICRO_BATCH,
        recompute_granularity=granularity,
        recompute_method=method,
        recompute_num_layers=layers,
    )
    posed = problem(model, tensor, CPU, implementation="torch", backend="builtin", sequence_length=SEQUENCE)
    items = estimate(posed, ConfigBatch.of([config])).breakdown(0)[0]
    assert sum(items[part] for part in (*PARTS, "recompute_inputs")) == counted(model, kinds, config)


@pytest.mark.parametrize("name", ["llama", "gpt"])
@pytest.mark.parametrize("tensor", [1, 2])
def test_the_head_keeps_its_norm_and_its_gathered_input(name: str, tensor: int) -> None:
    from tunewright_trial.layers.norms import Norm
    from tunewright_trial.parallel.sequence import gather_sequence

    model, _ = LAYERS[name]
    config = TrainingConfig(tensor_parallel_size=tensor, micro_batch_size=MICRO_BATCH)
    context = context_of(model, config)
    norm = Norm(context, model.hidden_size)
    weight = torch.zeros(8, model.hidden_size, dtype=context.dtype, requires_grad=True)
    hidden = torch.ones(context.hidden_shape, dtype=context.dtype, requires_grad=True) * 0.5
    saved: dict[int, int] = {}

    def pack(tensor: Any) -> Any:
        saved[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        kept.append(tensor)
        return tensor

    kept: list[Any] = []
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda packed: packed):
        torch.nn.functional.linear(gather_sequence(norm(hidden), context.tensor), weight)
    ignored = {tensor.untyped_storage().data_ptr() for tensor in (*norm.parameters(), weight)}
    posed = problem(model, 8, CPU, implementation="torch", backend="builtin", sequence_length=SEQUENCE)
    batch = ConfigBatch.of([config])
    assert saved_bytes(posed, batch, Degrees.of(posed, batch)).head[0] == sum(
        size for place, size in saved.items() if place not in ignored
    )


def test_a_device_with_fused_norms_keeps_less_than_a_cpu() -> None:
    from tests.unit.memory.examples import MI355X

    batch = ConfigBatch.of([TrainingConfig()])
    sizes = []
    for device in (CPU, MI355X):
        posed = problem(LAYERS["llama"][0], 8, device, implementation="torch", sequence_length=SEQUENCE)
        sizes.append(total(saved_bytes(posed, batch, Degrees.of(posed, batch)).dense, "kept")[0])
    assert sizes[0] - sizes[1] == 2 * (8 * 64 - 2 * 64) * SEQUENCE
