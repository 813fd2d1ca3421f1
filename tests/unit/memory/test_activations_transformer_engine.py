"""Bytes a token, against hand-counted sums of the tensors that autograd saves."""

import pytest

from tests.unit.memory.examples import DEEPSEEK_V2_LITE, LLAMA_3_8B, MIXTRAL_8X22B, architecture, problem
from tunewright.domain.config_batch import ConfigBatch
from tunewright.domain.degrees import Degrees
from tunewright.domain.model_architecture import ModelArchitecture
from tunewright.domain.training_config import TrainingConfig
from tunewright.memory.activations_transformer_engine import saved_bytes
from tunewright.memory.saved_bytes import total

TOKENS = 4096


def per_token(model: ModelArchitecture, kind: str = "dense", imbalance: float = 1.0, **config: object) -> float:
    posed = problem(model, routing_imbalance=imbalance)
    batch = ConfigBatch.of([TrainingConfig.model_validate(config)])
    layer = getattr(saved_bytes(posed, batch, Degrees.of(posed, batch)), kind)
    return float(total(layer, "kept")[0] / TOKENS)


def test_llama_3_8b_keeps_the_published_139400_bytes_a_token() -> None:
    assert per_token(LLAMA_3_8B) == 139_400


def test_fp8_saves_a_sixth_because_only_inputs_of_linears_shrink() -> None:
    assert per_token(LLAMA_3_8B, precision="fp8") / per_token(LLAMA_3_8B) == pytest.approx(0.84, abs=0.005)


def test_fp32_keeps_twice_the_bytes_but_for_statistics_that_were_fp32_already() -> None:
    statistics = 4 * 32 + 8
    assert per_token(LLAMA_3_8B, precision="fp32") == 2 * (139_400 - statistics) + statistics


def test_tensor_and_context_split_divide_everything() -> None:
    assert per_token(LLAMA_3_8B, tensor_parallel_size=4, context_parallel_size=2) == 139_400 / 8


def test_more_tensor_ranks_than_key_value_heads_keep_one_head_each() -> None:
    queries, keys = 4 * 4096, 4 * 1024
    assert per_token(LLAMA_3_8B, tensor_parallel_size=16) == (139_400 + keys) / 16
    assert per_token(LLAMA_3_8B, tensor_parallel_size=16) < (139_400 + queries) / 16


@pytest.mark.parametrize(
    ("module", "freed"),
    [("core_attn", 4 * 32), ("mlp", 2 * 4096 + 4 + 6 * 14336), ("layernorm", 0), ("moe", 0)],
)
def test_selective_recomputation_of_a_dense_layer_frees_its_modules(module: str, freed: int) -> None:
    kept = per_token(LLAMA_3_8B, recompute_granularity="selective", recompute_modules=(module,))
    assert 139_400 - kept == freed


def test_mixtral_layer_counts_router_and_two_routed_rows_a_token() -> None:
    attention = 4 * 6144 + 4 * 6144 + 4 * 1024 + 4 * 48 + 4
    router = 4 * 6144 + 9 * 8 + 4
    row = 2 * 6144 + 6 * 16384 + 4
    assert per_token(MIXTRAL_8X22B, "moe") == attention + router + 2 * row


def test_routing_imbalance_scales_routed_rows_only_up_to_what_peers_can_send() -> None:
    row = 2 * 6144 + 6 * 16384 + 4
    balanced = per_token(MIXTRAL_8X22B, "moe", expert_parallel_size=2)
    assert per_token(MIXTRAL_8X22B, "moe", 1.5, expert_parallel_size=2) - balanced == pytest.approx(row)
    assert per_token(MIXTRAL_8X22B, "moe", 9.0, expert_parallel_size=2) - balanced == pytest.approx(2 * row)


def test_expert_tensor_split_works_on_all_rows_at_a_share_of_the_width() -> None:
    whole, split = (per_token(MIXTRAL_8X22B, "moe", expert_tensor_parallel_size=size) for size in (1, 2))
    assert split - whole == 2 * (2 * 6144 + 4)


def test_sync_free_stage_three_sizes_rows_for_every_peer() -> None:
    usual = per_token(MIXTRAL_8X22B, "moe", expert_parallel_size=4, sync_free_stage=2)
    worst = per_token(MIXTRAL_8X22B, "moe", expert_parallel_size=4, sync_free_stage=3)
    row = 2 * 6144 + 6 * 16384 + 4
    assert worst - usual == pytest.approx(3 * 2 * row)


@pytest.mark.parametrize(
    ("module", "freed"),
    [
        ("layernorm", 2 * 2 * 2048),
        ("mla_up_proj", 2 * 16 * (2 * 128 + 2 * 64 + 128)),
        ("shared_experts", 6 * 2816),
        ("moe_act", 6 * 2 * 1408),
        ("moe", 9 * 64 + 6 * 2816 + 6 * (2 * 2048 + 6 * 1408 + 4)),
    ],
)
def test_selective_recomputation_of_a_latent_moe_layer_frees_its_modules(module: str, freed: int) -> None:
    whole = per_token(DEEPSEEK_V2_LITE, "moe")
    kept = per_token(DEEPSEEK_V2_LITE, "moe", recompute_granularity="selective", recompute_modules=(module,))
    assert whole - kept == pytest.approx(freed)


def test_latent_attention_counts_compressed_and_expanded_heads() -> None:
    attention = 4 * 2048 + 4 * 512 + 2 * 64 + 4 * 16 * (128 + 64 + 128) + 4 * 16 + 2 * 4
    mlp = 4 * 2048 + 6 * 10944 + 4
    assert per_token(DEEPSEEK_V2_LITE) == attention + mlp


def test_plain_mlp_has_one_projection_and_layernorm_two_statistics() -> None:
    gpt = architecture(
        "gpt", 2, 1024, 16, 16, ffn_hidden_size=4096, vocabulary_size=50304, gated_mlp=False, normalization="layernorm"
    )
    assert per_token(gpt) == 4 * 1024 + 8 * 1024 + 4 * 16 + 4 * 1024 + 4 * 4096 + 2 * 8


def test_query_key_and_sandwich_norms_add_their_inputs() -> None:
    plain = architecture("plain", 2, 1024, 16, 4, ffn_hidden_size=4096, vocabulary_size=50304)
    normed = plain.model_copy(update={"query_key_norm": "per-head"})
    sandwich = plain.model_copy(update={"norms_per_layer": 4})
    assert per_token(normed) - per_token(plain) == 2 * (1024 + 256)
    assert per_token(sandwich) - per_token(plain) == 2 * (2 * 1024 + 4)
