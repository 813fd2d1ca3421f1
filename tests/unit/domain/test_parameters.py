"""The breakdown of a layer: what is split over the tensor group, what is replicated, what belongs to experts."""

from tunewright.domain.catalog_loader import shipped_catalog
from tunewright.domain.parameters import LayerParameters, ParameterCounts


def counts_of(preset: str, **changes: object) -> ParameterCounts:
    return ParameterCounts.of(shipped_catalog().model(preset).model_copy(update=changes))


def test_dense_layer_splits_everything_but_its_norms() -> None:
    assert counts_of("llama-3-8b").dense_layer == LayerParameters(
        attention_split=4096 * 4096 * 2 + 2 * 4096 * 1024,
        mlp_split=3 * 4096 * 14336,
        norms=2 * 4096,
    )


def test_moe_layer_has_a_replicated_router_and_whole_experts() -> None:
    assert counts_of("mixtral-8x7b").moe_layer == LayerParameters(
        attention_split=4096 * 4096 * 2 + 2 * 4096 * 1024,
        router=4096 * 8,
        expert_parameters_total=8 * 3 * 4096 * 14336,
        norms=2 * 4096,
    )


def test_latent_attention_replicates_its_down_projections_and_their_norms() -> None:
    layer = counts_of("deepseek-v3").moe_layer

    assert layer.attention_replicated == 7168 * (1536 + 512 + 64) + 1536 + 512
    assert layer.attention_split == 1536 * 128 * 192 + 512 * 128 * 256 + 128 * 128 * 7168
    assert layer.router == 256 * 7168 + 256
    assert layer.shared_split == 3 * 7168 * 2048


def test_uncompressed_query_of_latent_attention_is_one_split_matrix() -> None:
    layer = counts_of("deepseek-v2-lite").dense_layer

    assert layer.attention_replicated == 2048 * (512 + 64) + 512
    assert layer.attention_split == 2048 * 16 * 192 + 512 * 16 * 256 + 16 * 128 * 2048


def test_row_parallel_biases_are_replicated() -> None:
    layer = counts_of("gpt3-175b").dense_layer

    assert layer.attention_split == 4 * 12288**2 + 3 * 12288
    assert layer.attention_replicated == 12288
    assert layer.mlp_split == 2 * 12288 * 49152 + 49152
    assert layer.mlp_replicated == 12288
    assert layer.norms == 2 * 2 * 12288


def test_sinks_and_biases_of_experts_are_counted() -> None:
    layer = counts_of("gpt-oss-20b").moe_layer

    assert layer.attention_split == 2880 * (2 * 64 * 64 + 2 * 8 * 64) + (64 * 64 + 2 * 8 * 64) + 64
    assert layer.expert_parameters_total == 32 * (3 * 2880 * 2880 + 2 * 2880 + 2880)


def test_query_and_key_norms_are_replicated() -> None:
    assert counts_of("qwen3-30b-a3b").moe_layer.attention_replicated == 2 * 128
    assert counts_of("llama-3-8b", query_key_norm="per-layer").dense_layer.attention_replicated == 4096 + 1024


def test_shared_expert_gate_is_replicated() -> None:
    model = shipped_catalog().model("deepseek-v2")
    assert model.experts is not None
    gated = model.model_copy(update={"experts": model.experts.model_copy(update={"shared_expert_gate": True})})

    assert ParameterCounts.of(gated).moe_layer.shared_replicated == 5120


def test_kinds_sum_to_the_layers() -> None:
    for preset in shipped_catalog().models:
        model = shipped_catalog().model(preset)
        counts = ParameterCounts.of(model)
        layers = model.num_dense_layers * counts.dense_layer.total + model.num_moe_layers * counts.moe_layer.total

        assert counts.total == layers + counts.final_norm + counts.embedding + counts.position_embedding + counts.head


def test_tied_head_is_counted_once() -> None:
    untied, tied = counts_of("llama-3-8b"), counts_of("llama-3-8b", tied_embeddings=True)

    assert (tied.head, untied.total - tied.total) == (0, 128256 * 4096)


def test_prediction_layers_stay_out_of_the_total() -> None:
    with_layers, without = counts_of("deepseek-v3"), counts_of("deepseek-v3", num_multi_token_prediction_layers=0)

    assert with_layers.total == without.total
    assert with_layers.multi_token_prediction_split == 2 * 7168**2
    assert with_layers.multi_token_prediction_replicated == 3 * 7168


def test_missing_kind_of_layer_is_all_zero() -> None:
    assert counts_of("llama-3-8b").moe_layer == LayerParameters()
    assert counts_of("mixtral-8x7b").dense_layer == LayerParameters()
