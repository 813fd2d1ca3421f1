"""FLOPs per token against hand counts."""

import pytest

from tests.unit.performance.builders import a_batch, a_dense_model, a_latent_model, a_moe_model, a_problem
from tunewright.performance import flops


def test_dense_attention_counts_projections_and_half_of_the_square() -> None:
    model = a_dense_model()
    assert flops.attention_projections(model) == 4 * 4096 * (32 + 8) * 128
    assert flops.attention_core(model, 8192) == 4 * 8192 * 32 * 128 / 2


def test_a_window_limits_attention_and_alternating_layers_average() -> None:
    every = a_dense_model(sliding_window=128)
    alternating = a_dense_model(sliding_window=128, sliding_window_every=2)
    window = 4 * 128 * 32 * 128
    assert flops.attention_core(every, 8192) == window
    assert flops.attention_core(alternating, 8192) == (window + 4 * 8192 * 32 * 128 / 2) / 2


def test_a_window_wider_than_the_sequence_changes_nothing() -> None:
    assert flops.attention_core(a_dense_model(sliding_window=10**6), 4096) == flops.attention_core(
        a_dense_model(), 4096
    )


def test_latent_attention_without_query_rank_by_hand() -> None:
    model = a_latent_model()
    hidden, heads = 2048, 16
    query = hidden * heads * 192
    key_value = hidden * (512 + 64) + 512 * heads * (128 + 128)
    assert flops.attention_projections(model) == 2 * (query + key_value + heads * 128 * hidden)
    assert flops.attention_core(model, 4096) == 4096 * heads * (192 + 128)


def test_an_ungated_mlp_has_two_products() -> None:
    assert flops.mlp(a_dense_model(gated_mlp=False), 100) == 4 * 4096 * 100
    assert flops.mlp(a_dense_model(), 100) == 6 * 4096 * 100


def test_experts_count_the_visited_ones_the_shared_ones_and_the_router() -> None:
    assert flops.routed_mlp(a_latent_model()) == 6 * 2048 * (6 * 1408 + 2816) + 2 * 2048 * 64


def test_the_whole_model_is_near_two_flops_per_active_parameter() -> None:
    assert flops.forward_per_token(a_dense_model(), 1) == pytest.approx(2 * 7.5e9, rel=0.01)
    assert flops.forward_per_token(a_moe_model(), 1) == pytest.approx(2 * 39e9, rel=0.01)


def test_a_prediction_depth_adds_a_layer_its_projection_and_a_head() -> None:
    plain, with_depth = a_latent_model(), a_latent_model(num_multi_token_prediction_layers=1)
    added = flops.forward_per_token(with_depth, 4096) - flops.forward_per_token(plain, 4096)
    assert added == pytest.approx(flops.moe_layer(plain, 4096) + flops.head(plain) + 4 * 2048**2)


def test_full_recomputation_repeats_the_layers_and_blocks_only_some() -> None:
    problem = a_problem()
    batch = a_batch(
        {"recompute_granularity": "none"},
        {"recompute_granularity": "full"},
        {"recompute_granularity": "full", "recompute_method": "block", "recompute_num_layers": 8},
        {"recompute_granularity": "selective", "recompute_modules": ("core_attn",)},
    )
    none, full, block, core = flops.recomputed_per_step(problem, batch)
    layers = 32 * flops.dense_layer(problem.model, 8192) * problem.tokens_per_step
    assert none == 0
    assert full == pytest.approx(layers)
    assert block == pytest.approx(layers / 4)
    assert core == pytest.approx(32 * flops.attention_core(problem.model, 8192) * problem.tokens_per_step)
