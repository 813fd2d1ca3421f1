"""The model's own Megatron-LM arguments: shapes, attention, experts. Used by `megatron`."""

from collections.abc import Iterable

from tunewright.domain.model_architecture import ModelArchitecture, MultiLatentAttention

Argument = tuple[str, *tuple[str, ...]]


def model_arguments(model: ModelArchitecture, sequence_length: int) -> Iterable[Argument]:
    """Yield the arguments that describe the architecture."""
    positions = model.learned_position_embeddings or sequence_length
    yield ("--num-layers", str(model.num_layers))
    yield ("--hidden-size", str(model.hidden_size))
    if model.ffn_hidden_size:
        yield ("--ffn-hidden-size", str(model.ffn_hidden_size))
    yield ("--num-attention-heads", str(model.num_attention_heads))
    yield ("--max-position-embeddings", str(max(positions, sequence_length)))
    yield ("--position-embedding-type", "learned_absolute" if model.learned_position_embeddings else "rope")
    yield ("--normalization", "RMSNorm" if model.normalization == "rmsnorm" else "LayerNorm")
    yield ("--tokenizer-type", "NullTokenizer")
    yield ("--vocab-size", str(model.vocabulary_size))
    yield from _switches(model)
    yield from _attention(model)
    yield from _experts(model)
    if model.num_multi_token_prediction_layers:
        yield ("--mtp-num-layers", str(model.num_multi_token_prediction_layers))


def _switches(model: ModelArchitecture) -> Iterable[Argument]:
    if model.gated_mlp:
        yield ("--swiglu",)
    if not model.mlp_bias and not model.attention_output_bias:
        yield ("--disable-bias-linear",)
    if model.attention_input_bias and not model.mlp_bias:
        yield ("--add-qkv-bias",)
    if not model.tied_embeddings:
        yield ("--untie-embeddings-and-output-weights",)
    if model.query_key_norm != "none":
        yield ("--qk-layernorm",)
    if model.sliding_window:
        yield ("--window-size", f"{model.sliding_window - 1},0")
        yield ("--window-attn-skip-freq", str(model.sliding_window_every))
    if model.attention_sinks:
        yield ("--softmax-type", "learnable")


def _attention(model: ModelArchitecture) -> Iterable[Argument]:
    latent = model.latent_attention
    if latent is not None:
        yield from _latent_attention(latent)
        return
    yield ("--kv-channels", str(model.head_dim))
    if model.num_key_value_heads != model.num_attention_heads:
        yield ("--group-query-attention",)
        yield ("--num-query-groups", str(model.num_key_value_heads))


def _latent_attention(latent: MultiLatentAttention) -> Iterable[Argument]:
    yield ("--multi-latent-attention",)
    if latent.query_rank:
        yield ("--q-lora-rank", str(latent.query_rank))
    yield ("--kv-lora-rank", str(latent.key_value_rank))
    yield ("--qk-head-dim", str(latent.unrotated_head_dim))
    yield ("--qk-pos-emb-head-dim", str(latent.rotated_head_dim))
    yield ("--v-head-dim", str(latent.value_head_dim))


def _experts(model: ModelArchitecture) -> Iterable[Argument]:
    experts = model.experts
    if experts is None:
        return
    yield ("--num-experts", str(experts.num_experts))
    yield ("--moe-router-topk", str(experts.experts_per_token))
    yield ("--moe-ffn-hidden-size", str(experts.expert_ffn_hidden_size))
    yield ("--moe-grouped-gemm",)
    if experts.shared_expert_ffn_hidden_size:
        yield ("--moe-shared-expert-intermediate-size", str(experts.shared_expert_ffn_hidden_size))
    if experts.num_leading_dense_layers:
        yield ("--moe-layer-freq", f"([0]*{experts.num_leading_dense_layers}+[1]*{model.num_moe_layers})")
