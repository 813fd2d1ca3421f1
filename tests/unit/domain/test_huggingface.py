"""Hugging Face configs: each model type gives the catalog's architecture, and bad fields are named."""

from typing import Any

import pytest

from tunewright.domain.catalog_loader import shipped_catalog
from tunewright.domain.huggingface import architecture_from_huggingface
from tunewright.domain.parameters import ParameterCounts
from tunewright.errors import InvalidInput

Document = dict[str, Any]


def a_config(model_type: str, layers: int, hidden: int, heads: int, groups: int, **fields: object) -> Document:
    return {
        "model_type": model_type,
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": groups,
        **fields,
    }


LLAMA_3_8B = a_config("llama", 32, 4096, 32, 8, intermediate_size=14336, vocab_size=128256, attention_bias=False)
MIXTRAL = a_config(
    "mixtral",
    32,
    4096,
    32,
    8,
    intermediate_size=14336,
    vocab_size=32000,
    num_local_experts=8,
    num_experts_per_tok=2,
    sliding_window=None,
)
QWEN3_MOE = a_config(
    "qwen3_moe",
    48,
    2048,
    32,
    4,
    head_dim=128,
    intermediate_size=6144,
    vocab_size=151936,
    num_experts=128,
    num_experts_per_tok=8,
    moe_intermediate_size=768,
    decoder_sparse_step=1,
    mlp_only_layers=[],
    use_sliding_window=False,
)
DEEPSEEK_V2_LITE = a_config(
    "deepseek_v2",
    27,
    2048,
    16,
    16,
    intermediate_size=10944,
    vocab_size=102400,
    q_lora_rank=None,
    kv_lora_rank=512,
    qk_nope_head_dim=128,
    qk_rope_head_dim=64,
    v_head_dim=128,
    n_routed_experts=64,
    n_shared_experts=2,
    num_experts_per_tok=6,
    moe_intermediate_size=1408,
    first_k_dense_replace=1,
    moe_layer_freq=1,
)
DEEPSEEK_V3 = a_config(
    "deepseek_v3",
    61,
    7168,
    128,
    128,
    intermediate_size=18432,
    vocab_size=129280,
    q_lora_rank=1536,
    kv_lora_rank=512,
    qk_nope_head_dim=128,
    qk_rope_head_dim=64,
    v_head_dim=128,
    n_routed_experts=256,
    n_shared_experts=1,
    num_experts_per_tok=8,
    moe_intermediate_size=2048,
    first_k_dense_replace=3,
    moe_layer_freq=1,
    num_nextn_predict_layers=1,
)
GPT_OSS_20B = a_config(
    "gpt_oss",
    24,
    2880,
    64,
    8,
    head_dim=64,
    intermediate_size=2880,
    vocab_size=201088,
    num_local_experts=32,
    num_experts_per_tok=4,
    sliding_window=128,
    attention_bias=True,
    layer_types=["sliding_attention", "full_attention"] * 12,
)
GROK_1 = a_config(
    "grok-1", 64, 6144, 48, 8, intermediate_size=32768, vocab_size=131072, num_experts=8, num_experts_per_tok=2
)


@pytest.mark.parametrize(
    ("preset", "document"),
    [
        ("llama-3-8b", LLAMA_3_8B),
        ("mixtral-8x7b", MIXTRAL),
        ("qwen3-30b-a3b", QWEN3_MOE),
        ("deepseek-v2-lite", DEEPSEEK_V2_LITE),
        ("deepseek-v3", DEEPSEEK_V3),
        ("gpt-oss-20b", GPT_OSS_20B),
        ("grok-1", GROK_1),
    ],
)
def test_config_gives_the_architecture_of_the_catalog(preset: str, document: Document) -> None:
    assert architecture_from_huggingface(document, preset) == shipped_catalog().model(preset)


@pytest.mark.parametrize(
    ("document", "total"),
    [
        pytest.param(
            {
                "model_type": "gpt2",
                "n_layer": 12,
                "n_embd": 768,
                "n_head": 12,
                "n_positions": 1024,
                "vocab_size": 50257,
            },
            124439808,
            id="openai-community/gpt2",
        ),
        pytest.param(
            a_config("mistral", 32, 4096, 32, 8, intermediate_size=14336, vocab_size=32000, sliding_window=4096),
            7241732096,
            id="mistralai/Mistral-7B-v0.1",
        ),
        pytest.param(
            a_config("qwen2", 28, 3584, 28, 4, intermediate_size=18944, vocab_size=152064, use_sliding_window=False),
            7615616512,
            id="Qwen/Qwen2.5-7B",
        ),
        pytest.param(
            a_config(
                "qwen3",
                28,
                2048,
                16,
                8,
                head_dim=128,
                intermediate_size=6144,
                vocab_size=151936,
                tie_word_embeddings=True,
            ),
            1720574976,
            id="Qwen/Qwen3-1.7B, head stored once",
        ),
        pytest.param(
            a_config(
                "qwen2_moe",
                24,
                2048,
                16,
                16,
                intermediate_size=5632,
                vocab_size=151936,
                num_experts=60,
                num_experts_per_tok=4,
                moe_intermediate_size=1408,
                shared_expert_intermediate_size=5632,
            ),
            14315784192,
            id="Qwen/Qwen1.5-MoE-A2.7B",
        ),
    ],
)
def test_parameters_of_a_config_equal_the_checkpoint(document: Document, total: int) -> None:
    assert ParameterCounts.of(architecture_from_huggingface(document, "it")).total == total


def test_window_of_mistral_is_kept() -> None:
    document = a_config("mistral", 2, 64, 4, 2, intermediate_size=128, vocab_size=100, sliding_window=4096)

    assert architecture_from_huggingface(document, "it").sliding_window == 4096


def test_heads_without_grouping_may_leave_out_the_key_value_heads() -> None:
    document = {key: value for key, value in LLAMA_3_8B.items() if key != "num_key_value_heads"}

    assert architecture_from_huggingface(document, "it").num_key_value_heads == 32


@pytest.mark.parametrize("model_type", ["mamba", None, ["llama"]])
def test_unknown_model_type_names_the_supported_ones(model_type: object) -> None:
    with pytest.raises(InvalidInput, match=r"model_type: .* must be one of llama, mistral") as caught:
        architecture_from_huggingface({"model_type": model_type}, "it")

    assert caught.value.problems[0].value == model_type


@pytest.mark.parametrize("value", ["32", 32.0, True, 0, -1, 2**40, [32]])
def test_odd_number_is_named_by_its_key(value: object) -> None:
    with pytest.raises(InvalidInput, match="num_hidden_layers") as caught:
        architecture_from_huggingface({**LLAMA_3_8B, "num_hidden_layers": value}, "it")

    assert [problem.value for problem in caught.value.problems] == [value]


def test_all_missing_keys_are_reported_at_once() -> None:
    with pytest.raises(InvalidInput) as caught:
        architecture_from_huggingface({"model_type": "mixtral"}, "it")

    assert [problem.field for problem in caught.value.problems] == [
        "hidden_size",
        "num_attention_heads",
        "num_hidden_layers",
        "intermediate_size",
        "vocab_size",
        "num_local_experts",
        "num_experts_per_tok",
    ]


@pytest.mark.parametrize(
    ("document", "key", "value"),
    [
        (QWEN3_MOE, "decoder_sparse_step", 2),
        (QWEN3_MOE, "mlp_only_layers", [0]),
        (QWEN3_MOE, "use_sliding_window", True),
        (DEEPSEEK_V3, "moe_layer_freq", 2),
        (DEEPSEEK_V3, "attention_bias", True),
        (GPT_OSS_20B, "layer_types", ["full_attention"] * 24),
        (LLAMA_3_8B, "attention_bias", "yes"),
    ],
)
def test_what_the_models_do_not_describe_is_refused(document: Document, key: str, value: object) -> None:
    with pytest.raises(InvalidInput) as caught:
        architecture_from_huggingface({**document, key: value}, "it")

    assert [problem.field for problem in caught.value.problems] == [key]


def test_inconsistent_sizes_are_refused() -> None:
    with pytest.raises(InvalidInput, match="must divide numAttentionHeads"):
        architecture_from_huggingface({**LLAMA_3_8B, "num_key_value_heads": 5}, "it")
