"""The model's own Primus keys, so that an experiment stands alone instead of naming one of Primus's model files.

They go over Primus's `language_model.yaml`, whose defaults are another model's: everything that a shape depends on is
written, switched off or on. Used by `primus`.
"""

from typing import Any

from tunewright.domain.model_architecture import MixtureOfExperts, ModelArchitecture, MultiLatentAttention

BASE = "language_model.yaml"
"""primus/configs/models/megatron/language_model.yaml of AMD-AGI/Primus."""


def model_keys(model: ModelArchitecture, sequence_length: int) -> dict[str, Any]:
    """Return the override keys that describe the architecture."""
    return {
        "num_layers": model.num_layers,
        "hidden_size": model.hidden_size,
        "ffn_hidden_size": model.ffn_hidden_size or _expert_width(model),
        "num_attention_heads": model.num_attention_heads,
        "max_position_embeddings": max(sequence_length, model.learned_position_embeddings),
        "position_embedding_type": "learned_absolute" if model.learned_position_embeddings else "rope",
        "normalization": "RMSNorm" if model.normalization == "rmsnorm" else "LayerNorm",
        "hidden_dropout": 0.0,
        "attention_dropout": 0.0,
        "swiglu": model.gated_mlp,
        "add_bias_linear": model.mlp_bias or model.attention_output_bias,
        "add_qkv_bias": model.attention_input_bias,
        "untie_embeddings_and_output_weights": not model.tied_embeddings,
        "qk_layernorm": model.query_key_norm != "none",
        "tokenizer_type": "NullTokenizer",
        "vocab_size": model.vocabulary_size,
        **_window(model),
        **_attention(model),
        **_experts(model),
        **_prediction(model),
    }


def _expert_width(model: ModelArchitecture) -> int:
    return model.experts.expert_ffn_hidden_size if model.experts else model.ffn_hidden_size


def _window(model: ModelArchitecture) -> dict[str, Any]:
    keys: dict[str, Any] = {}
    if model.sliding_window:
        keys |= {"window_size": [model.sliding_window - 1, 0], "window_attn_skip_freq": model.sliding_window_every}
    if model.attention_sinks:
        keys["softmax_type"] = "learnable"
    return keys


def _attention(model: ModelArchitecture) -> dict[str, Any]:
    if model.latent_attention is not None:
        return _latent_attention(model.latent_attention)
    grouped = model.num_key_value_heads != model.num_attention_heads
    return {
        "multi_latent_attention": False,
        "kv_channels": model.head_dim,
        "group_query_attention": grouped,
        "num_query_groups": model.num_key_value_heads if grouped else None,
    }


def _latent_attention(latent: MultiLatentAttention) -> dict[str, Any]:
    return {
        "multi_latent_attention": True,
        "group_query_attention": False,
        "q_lora_rank": latent.query_rank or None,
        "kv_lora_rank": latent.key_value_rank,
        "qk_head_dim": latent.unrotated_head_dim,
        "qk_pos_emb_head_dim": latent.rotated_head_dim,
        "v_head_dim": latent.value_head_dim,
    }


def _experts(model: ModelArchitecture) -> dict[str, Any]:
    experts = model.experts
    if experts is None:
        return {"num_experts": None}
    return {
        "num_experts": experts.num_experts,
        "moe_router_topk": experts.experts_per_token,
        "moe_ffn_hidden_size": experts.expert_ffn_hidden_size,
        "moe_grouped_gemm": True,
        "moe_router_force_load_balancing": True,
        "moe_shared_expert_intermediate_size": experts.shared_expert_ffn_hidden_size or None,
        "moe_layer_freq": _layer_pattern(model, experts),
    }


def _layer_pattern(model: ModelArchitecture, experts: MixtureOfExperts) -> int | str:
    leading = experts.num_leading_dense_layers
    return f"([0]*{leading}+[1]*{model.num_moe_layers})" if leading else 1


def _prediction(model: ModelArchitecture) -> dict[str, Any]:
    count = model.num_multi_token_prediction_layers
    return {"mtp_num_layers": count} if count else {}
