"""Activations that torchtitan's layers keep: torch's eager table, and its own meaning of `selective`. Used by
`activations`.

torchtitan's selective checkpointing works on operations, not on modules: a layer keeps its input, the results of
attention, of reduce-scatters and of every second matrix product (the first, the third, ...), and computes the rest
again (`torchtitan/distributed/activation_checkpoint.py`, policy `op`). Grouped expert products are computed again.
Eager, the policy keeps the last product too, which nobody reads; compiled layers do not.
"""

import numpy as np

from tunewright.domain.config_batch import ConfigBatch, FloatArray
from tunewright.domain.degrees import Degrees
from tunewright.domain.model_architecture import ModelArchitecture
from tunewright.domain.problem import TuningProblem
from tunewright.memory import activations_torch
from tunewright.memory.saved_bytes import LayerBytes, PartBytes, SavedBytes, total
from tunewright.memory.software import DEFAULT, Software

LOG_SUM_EXP_BYTES = 4


def saved_bytes(
    problem: TuningProblem, batch: ConfigBatch, degrees: Degrees, software: Software = DEFAULT
) -> SavedBytes:
    """Return what one layer of each kind keeps per micro batch on a rank."""
    plain = activations_torch.saved_bytes(problem, batch, degrees)
    tokens = degrees.tokens_per_micro_batch / batch.tensor_parallel_size
    element = np.where(batch.is_("precision", "fp32"), 4.0, 2.0)
    attention = _attention_products(problem.model, batch)
    read = slice(None, -1 if software.compiled_layers else None)
    dense = _kept_results(problem.model, batch, [*attention, *_mlp_products(problem.model, batch)][read])
    moe = _kept_results(problem.model, batch, [*attention, *_moe_products(problem.model, batch)][read])
    scores = float(LOG_SUM_EXP_BYTES * problem.model.num_attention_heads)
    return SavedBytes(
        dense=_with_kept(batch, plain.dense, (dense * element + scores) * tokens + plain.layer_input),
        moe=_with_kept(batch, plain.moe, (moe * element + scores) * tokens + plain.layer_input),
        head=plain.head,
        layer_input=plain.layer_input,
    )


def _with_kept(batch: ConfigBatch, layer: LayerBytes, kept: FloatArray) -> LayerBytes:
    """Spread what `selective` keeps of a layer over its parts in proportion to their size."""
    selective = batch.is_("recompute_granularity", "selective")
    share = np.minimum(kept / np.maximum(total(layer, "whole"), 1.0), 1.0) if layer else np.ones(len(batch))
    spread = {}
    for name, part in layer.items():
        remaining = np.where(selective, part.whole * share, part.whole)
        spread[name] = PartBytes(remaining, part.whole - remaining)
    return spread


def _kept_results(model: ModelArchitecture, batch: ConfigBatch, products: list[FloatArray]) -> FloatArray:
    """Elements a token (of the tensor split): odd products, attention's output and two reduce-scattered blocks."""
    latent = model.latent_attention
    value_width = model.head_dim if latent is None else latent.value_head_dim
    scattered = 2.0 * model.hidden_size * (batch.tensor_parallel_size > 1)
    kept: FloatArray = sum(products[::2], np.zeros(len(batch))) + model.num_attention_heads * value_width + scattered
    return kept


def _attention_products(model: ModelArchitecture, batch: ConfigBatch) -> list[FloatArray]:
    """Widths of the products of attention in their order. Split results are T times shorter, gathered ones are not."""
    tensor, heads = batch.tensor_parallel_size, model.num_attention_heads
    output = 1.0 * model.hidden_size * tensor
    latent = model.latent_attention
    if latent is None:
        keys = np.maximum(model.num_key_value_heads, tensor) * float(model.head_dim)
        return [np.full(len(batch), float(heads * model.head_dim)), keys, keys, output]
    query = float(heads * (latent.unrotated_head_dim + latent.rotated_head_dim))
    up = float(heads * (latent.unrotated_head_dim + latent.value_head_dim))
    down = [latent.query_rank * 1.0 * tensor] if latent.query_rank else []
    compressed = (latent.key_value_rank + latent.rotated_head_dim) * 1.0 * tensor
    return [*down, np.full(len(batch), query), compressed, np.full(len(batch), up), output]


def _mlp_products(model: ModelArchitecture, batch: ConfigBatch) -> list[FloatArray]:
    return _feed_forward(model, batch, model.ffn_hidden_size)


def _moe_products(model: ModelArchitecture, batch: ConfigBatch) -> list[FloatArray]:
    """Router, then the shared experts."""
    if model.experts is None:
        return []
    router = np.full(len(batch), float(model.experts.num_experts))
    width = model.experts.shared_expert_ffn_hidden_size
    return [router, *(_feed_forward(model, batch, width) if width else [])]


def _feed_forward(model: ModelArchitecture, batch: ConfigBatch, width: int) -> list[FloatArray]:
    up = [np.full(len(batch), float(width))] * (2 if model.gated_mlp else 1)
    return [*up, 1.0 * model.hidden_size * batch.tensor_parallel_size]
