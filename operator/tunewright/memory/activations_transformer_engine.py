"""Activations that Megatron's layers keep with Transformer Engine kernels. Used by `activations`.

Counted tensor by tensor from what autograd saves in Megatron-LM (core 0.16) and TransformerEngine: flash attention
(no S² term), sequence parallelism whenever T > 1, so that every term is divided by T. Each storage counts once. Norms
add the reciprocal deviation (4 bytes a token, 8 with a mean). Under fp8 the inputs of linears are saved in one byte.

Without flash attention (`Software`) the softmax, its dropout and the masks are kept: 34·H + 5·A·S a token in GPT layers
(Korthikanti et al. 2022, arXiv 2205.05198, equation 1).

Check: Llama-3-8B keeps 139,400 bytes per token and layer in bf16.
"""

from dataclasses import dataclass

import numpy as np

from tunewright.domain.config_batch import ConfigBatch, FloatArray
from tunewright.domain.degrees import Degrees
from tunewright.domain.model_architecture import MixtureOfExperts, ModelArchitecture, MultiLatentAttention
from tunewright.domain.problem import TuningProblem
from tunewright.memory.routing import routed_rows
from tunewright.memory.saved_bytes import LayerBytes, PartBytes, SavedBytes, selects
from tunewright.memory.software import DEFAULT, Software

ROUTER_BYTES_PER_EXPERT = 9
"""Per token: fp32 scores before and after the softmax (or sigmoid), and the boolean routing map."""


@dataclass(frozen=True)
class _Sizes:
    """Bytes of one element, shape (rows,), and the columns every part needs."""

    batch: ConfigBatch
    model: ModelArchitecture
    element: FloatArray
    linear_input: FloatArray
    norm_statistics: int
    scores: int
    """Attention scores a token and head that are kept: 0 with flash attention, else the sequence's length."""

    @property
    def hidden(self) -> FloatArray:
        """Bytes of one hidden vector."""
        return self.element * self.model.hidden_size

    @property
    def normed(self) -> FloatArray:
        """Bytes of one normed hidden vector, the input of a linear."""
        return self.linear_input * self.model.hidden_size


def saved_bytes(
    problem: TuningProblem, batch: ConfigBatch, degrees: Degrees, software: Software = DEFAULT
) -> SavedBytes:
    """Return what one layer of each kind keeps per micro batch on a rank."""
    sizes = _sizes(problem.model, batch, 0 if software.flash_attention else problem.sequence_length)
    tokens = degrees.tokens_per_micro_batch / batch.tensor_parallel_size
    attention = _scaled(_attention(sizes), tokens)
    moe: LayerBytes = {}
    if problem.model.experts is not None:
        moe = {"attention": attention, **_moe(problem, sizes, problem.model.experts, tokens)}
    return SavedBytes(
        dense={"attention": attention, "mlp": _scaled(_mlp(sizes), tokens)},
        moe=moe,
        head=2 * sizes.hidden * tokens,
        layer_input=sizes.hidden * tokens,
    )


def _sizes(model: ModelArchitecture, batch: ConfigBatch, scores: int) -> _Sizes:
    element = np.where(batch.is_("precision", "fp32"), 4.0, 2.0)
    linear_input = np.where(batch.is_("precision", "fp8", "mxfp8"), 1.0, element)
    return _Sizes(batch, model, element, linear_input, 4 if model.normalization == "rmsnorm" else 8, scores)


def _scaled(part: PartBytes, tokens: FloatArray) -> PartBytes:
    return PartBytes(part.kept * tokens, part.dropped * tokens)


def _part(whole: FloatArray, dropped: FloatArray) -> PartBytes:
    return PartBytes(whole - dropped, dropped)


def _attention(sizes: _Sizes) -> PartBytes:
    """Return bytes a token: norm input and output, Q, K, V, output and what the core keeps (core_attn drops that)."""
    model, batch = sizes.model, sizes.batch
    core = _core(sizes)
    common = sizes.hidden + sizes.normed + sizes.norm_statistics + core + _post_norm(sizes, 1) + _dropout_mask(sizes)
    dropped = np.where(selects(batch, "core_attn"), core, 0.0)
    latent = model.latent_attention
    if latent is None:
        return _part(common + _grouped_query(sizes), dropped)
    # Megatron's MLA layers have an unfused input norm, so that its output can be recomputed
    dropped = dropped + np.where(selects(batch, "layernorm"), sizes.normed, 0.0)
    up_projected = sizes.element * model.num_attention_heads * _up_projected_width(latent)
    dropped = dropped + np.where(selects(batch, "mla_up_proj"), up_projected, 0.0)
    return _part(common + _latent(sizes, latent), dropped)


def _core(sizes: _Sizes) -> FloatArray:
    """Log-sum-exp of flash attention; else probabilities before and after their dropout, and its mask."""
    heads = sizes.model.num_attention_heads
    if not sizes.scores:
        return np.full_like(sizes.element, 4.0 * heads)
    return (2 * sizes.element + 1) * heads * sizes.scores


def _dropout_mask(sizes: _Sizes) -> float:
    """Mask behind attention or the MLP, a byte each; today's models train without."""
    return float(sizes.model.hidden_size) if sizes.scores else 0.0


def _grouped_query(sizes: _Sizes) -> FloatArray:
    """Q and output with all heads, K and V with theirs; a tensor rank has at least one K/V head."""
    model = sizes.model
    key_value_heads = np.maximum(model.num_key_value_heads, sizes.batch.tensor_parallel_size)
    heads = 2 * model.num_attention_heads + 2 * key_value_heads
    if model.query_key_norm != "none":
        heads = heads + model.num_attention_heads + key_value_heads
    saved: FloatArray = sizes.element * heads * model.head_dim
    return saved


def _latent(sizes: _Sizes, latent: MultiLatentAttention) -> FloatArray:
    """Compressed Q and K/V before and after their norms, the rotated key, and Q, K, V, output of every head."""
    ranks = latent.query_rank + latent.key_value_rank
    norms = 2 if latent.query_rank else 1
    head = 2 * (latent.unrotated_head_dim + latent.rotated_head_dim + latent.value_head_dim)
    compressed = (sizes.element + sizes.linear_input) * ranks + sizes.element * latent.rotated_head_dim
    heads = sizes.element * sizes.model.num_attention_heads * head
    saved: FloatArray = compressed + heads + norms * sizes.norm_statistics
    return saved


def _up_projected_width(latent: MultiLatentAttention) -> int:
    return 2 * latent.unrotated_head_dim + 2 * latent.rotated_head_dim + latent.value_head_dim


def _post_norm(sizes: _Sizes, position: int) -> FloatArray:
    """Input of a sandwich norm behind a block (the first behind attention, the second behind the MLP), if any."""
    present = sizes.model.norms_per_layer - 2 >= position
    return (sizes.hidden + sizes.norm_statistics) * float(present)


def _mlp(sizes: _Sizes) -> PartBytes:
    """Return bytes a token: norm input and output, up projection(s) and the activated product."""
    whole = sizes.hidden + sizes.normed + sizes.norm_statistics + _post_norm(sizes, 2)
    whole = whole + _intermediate(sizes, sizes.model.ffn_hidden_size) + _dropout_mask(sizes)
    return _part(whole, np.where(selects(sizes.batch, "mlp"), whole - sizes.hidden, 0.0))


def _intermediate(sizes: _Sizes, width: int) -> FloatArray:
    projections = 2 if sizes.model.gated_mlp else 1
    return (projections * sizes.element + sizes.linear_input) * width


def _moe(problem: TuningProblem, sizes: _Sizes, experts: MixtureOfExperts, tokens: FloatArray) -> LayerBytes:
    """Return the parts of an MoE block. `moe` recomputes all of it from the norm's output."""
    batch = sizes.batch
    moe = selects(batch, "moe")
    scores = np.full(len(batch), float(ROUTER_BYTES_PER_EXPERT * experts.num_experts))
    # router and experts read the norm's output in full precision, whatever the linears' recipe
    router = 2 * sizes.hidden + sizes.norm_statistics + _post_norm(sizes, 2) + scores
    router_dropped = np.where(selects(batch, "layernorm"), sizes.hidden, 0.0) + np.where(moe, scores, 0.0)
    shared = _intermediate(sizes, experts.shared_expert_ffn_hidden_size)
    shared_dropped = np.where(moe | selects(batch, "shared_experts"), shared, 0.0)
    return {
        "router": _scaled(_part(router, router_dropped), tokens),
        "shared_experts": _scaled(_part(shared, shared_dropped), tokens),
        "experts": _scaled(_routed_row(sizes, experts), routed_rows(problem, batch, tokens)),
    }


def _routed_row(sizes: _Sizes, experts: MixtureOfExperts) -> PartBytes:
    """Return bytes a routed row: the permuted token, its intermediates (split by ET) and its probability."""
    batch = sizes.batch
    width = experts.expert_ffn_hidden_size / batch.expert_tensor_parallel_size
    projections = 2 if sizes.model.gated_mlp else 1
    product = sizes.linear_input * width
    whole = sizes.normed + projections * sizes.element * width + product + 4.0
    dropped = np.where(selects(batch, "moe"), whole, np.where(selects(batch, "moe_act"), product, 0.0))
    return _part(whole, dropped)
