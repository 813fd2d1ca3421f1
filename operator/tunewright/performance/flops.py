"""Floating-point operations per token and layer kind, and per optimizer step. Read by compute, step and reports.

Convention: a product of m×k and k×n counts 2·m·n·k; attention is causal (half of the square); model FLOPs are three
times the forward pass and leave recomputation out, as Megatron-LM prints them; hardware FLOPs add what recomputation
runs again (not flash attention's own repeated scores).
"""

import numpy as np

from tunewright.domain.config_batch import BoolArray, ConfigBatch, FloatArray
from tunewright.domain.model_architecture import ModelArchitecture
from tunewright.domain.problem import TuningProblem

BACKWARD_TO_FORWARD = 2
"""Input and weight gradient each cost what the forward product costs."""


def attention_projections(model: ModelArchitecture) -> float:
    """Return the FLOPs of one token's attention projections: 4·H·(A+G)·d, or the low-rank factors of MLA."""
    hidden, heads = model.hidden_size, model.num_attention_heads
    latent = model.latent_attention
    if latent is None:
        return 4.0 * hidden * (heads + model.num_key_value_heads) * model.head_dim
    query_head = latent.unrotated_head_dim + latent.rotated_head_dim
    query = latent.query_rank * (hidden + heads * query_head) if latent.query_rank else hidden * heads * query_head
    key_value = hidden * (latent.key_value_rank + latent.rotated_head_dim)
    up = latent.key_value_rank * heads * (latent.unrotated_head_dim + latent.value_head_dim)
    return 2.0 * (query + key_value + up + heads * latent.value_head_dim * hidden)


def attention_core(model: ModelArchitecture, sequence_length: int) -> float:
    """Return the FLOPs of one token's scores and their product with V, in the mean over a causal sequence.

    2·S·A·d halves of the full square; a window of w tokens limits it to 4·w·A·d. Where only some layers have the
    window, this is the mean over layers.
    """
    latent = model.latent_attention
    width = 2.0 * model.head_dim
    if latent is not None:
        width = float(latent.unrotated_head_dim + latent.rotated_head_dim + latent.value_head_dim)
    full = 2.0 * (sequence_length / 2) * model.num_attention_heads * width
    if not model.sliding_window:
        return full
    window = 2.0 * min(model.sliding_window, sequence_length / 2) * model.num_attention_heads * width
    return full + (window - full) / model.sliding_window_every


def mlp(model: ModelArchitecture, width: int) -> float:
    """Return the FLOPs of one token's MLP of intermediate `width`: 6·H·F gated, 4·H·F plain."""
    return (6.0 if model.gated_mlp else 4.0) * model.hidden_size * width


def routed_mlp(model: ModelArchitecture) -> float:
    """Return the FLOPs of one token's experts, shared experts and router: 6·H·(k·Fe + Fs) + 2·H·N."""
    experts = model.experts
    if experts is None:
        return 0.0
    width = experts.experts_per_token * experts.expert_ffn_hidden_size + experts.shared_expert_ffn_hidden_size
    return mlp(model, width) + 2.0 * model.hidden_size * experts.num_experts


def dense_layer(model: ModelArchitecture, sequence_length: int) -> float:
    """Return the forward FLOPs of one token in a dense layer."""
    return attention_projections(model) + attention_core(model, sequence_length) + mlp(model, model.ffn_hidden_size)


def moe_layer(model: ModelArchitecture, sequence_length: int) -> float:
    """Return the forward FLOPs of one token in a MoE layer."""
    return attention_projections(model) + attention_core(model, sequence_length) + routed_mlp(model)


def head(model: ModelArchitecture) -> float:
    """Return the forward FLOPs of one token's logits."""
    return 2.0 * model.hidden_size * model.vocabulary_size


def forward_per_token(model: ModelArchitecture, sequence_length: int) -> float:
    """Return the forward FLOPs of one token in the whole model, multi-token prediction included."""
    depth = model.num_multi_token_prediction_layers
    last_layer = moe_layer if model.is_moe else dense_layer
    layers = model.num_dense_layers * dense_layer(model, sequence_length)
    layers += model.num_moe_layers * moe_layer(model, sequence_length)
    extra = depth * (last_layer(model, sequence_length) + head(model) + 4.0 * model.hidden_size**2)
    return layers + head(model) + extra


def model_flops_per_step(problem: TuningProblem) -> float:
    """Return the FLOPs of one optimizer step without recomputation."""
    per_token = forward_per_token(problem.model, problem.sequence_length)
    return (1 + BACKWARD_TO_FORWARD) * per_token * problem.tokens_per_step


def recomputed_per_step(problem: TuningProblem, batch: ConfigBatch) -> FloatArray:
    """Return the FLOPs that recomputation adds to a step, per row."""
    model, length = problem.model, problem.sequence_length
    full = batch.is_("recompute_granularity", "full")
    core, up = attention_core(model, length), _latent_up(model)
    parts: list[tuple[BoolArray, float]] = [
        (full, model.num_dense_layers * dense_layer(model, length) + model.num_moe_layers * moe_layer(model, length)),
        (batch.recomputes("core_attn"), model.num_layers * core),
        (batch.recomputes("mla_up_proj"), model.num_layers * up),
        (batch.recomputes("mlp"), model.num_dense_layers * mlp(model, model.ffn_hidden_size)),
        (batch.recomputes("moe"), model.num_moe_layers * routed_mlp(model)),
        (batch.recomputes("shared_experts") & ~batch.recomputes("moe"), model.num_moe_layers * _shared(model)),
    ]
    per_token = sum((np.where(covered, flops, 0.0) for covered, flops in parts), np.zeros(len(batch)))
    blocks = full & batch.is_("recompute_method", "block")
    covered_layers = batch.recompute_num_layers * batch.pipeline_parallel_size * batch.virtual_pipeline_parallel_size
    share = np.where(blocks, np.minimum(covered_layers / model.num_layers, 1.0), 1.0)
    recomputed: FloatArray = per_token * share * problem.tokens_per_step
    return recomputed


def _latent_up(model: ModelArchitecture) -> float:
    latent = model.latent_attention
    if latent is None:
        return 0.0
    query = latent.query_rank * (latent.unrotated_head_dim + latent.rotated_head_dim)
    key_value = latent.key_value_rank * (latent.unrotated_head_dim + latent.value_head_dim)
    return 2.0 * model.num_attention_heads * (query + key_value)


def _shared(model: ModelArchitecture) -> float:
    return 0.0 if model.experts is None else mlp(model, model.experts.shared_expert_ffn_hidden_size)
