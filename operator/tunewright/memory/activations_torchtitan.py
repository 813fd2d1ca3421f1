"""Activations that torchtitan's layers keep: torch's eager table, and its own meaning of `selective`. Used by
`activations`.

Which results `selective` keeps is said in `domain.operation_checkpointing`; here are their sizes.
"""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from tunewright.domain.config_batch import ConfigBatch, FloatArray
from tunewright.domain.degrees import Degrees
from tunewright.domain.model_architecture import ModelArchitecture
from tunewright.domain.operation_checkpointing import Product, kept_products, products, recomputes_operations
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
    scores = float(LOG_SUM_EXP_BYTES * problem.model.num_attention_heads)

    def with_kept(kind: Literal["dense", "moe"], layer: LayerBytes) -> LayerBytes:
        elements = _kept_elements(problem.model, batch, kind, compiled=software.compiled_layers)
        return _with_kept(problem, batch, layer, (elements * element + scores) * tokens + plain.layer_input)

    return SavedBytes(
        dense=with_kept("dense", plain.dense),
        moe=with_kept("moe", plain.moe),
        head=plain.head,
        layer_input=plain.layer_input,
    )


def _with_kept(problem: TuningProblem, batch: ConfigBatch, layer: LayerBytes, kept: FloatArray) -> LayerBytes:
    """Spread what `selective` keeps of a layer over its parts in proportion to their size."""
    selective = recomputes_operations(problem, batch)
    share = np.minimum(kept / np.maximum(total(layer, "whole"), 1.0), 1.0) if layer else np.ones(len(batch))
    spread = {}
    for name, part in layer.items():
        remaining = np.where(selective, part.whole * share, part.whole)
        spread[name] = PartBytes(remaining, part.whole - remaining)
    return spread


def _kept_elements(
    model: ModelArchitecture, batch: ConfigBatch, kind: Literal["dense", "moe"], *, compiled: bool
) -> FloatArray:
    """Elements a token (of the tensor split): kept products, attention's output and two reduce-scattered blocks."""
    latent = model.latent_attention
    value_width = model.head_dim if latent is None else latent.value_head_dim
    scattered = 2.0 * model.hidden_size * (batch.tensor_parallel_size > 1)
    widths = _widths(model, batch, kind)
    results = [widths[name] for name in kept_products(products(model, kind), compiled=compiled)]
    kept: FloatArray = np.zeros(len(batch)) + sum(results) + model.num_attention_heads * value_width + scattered
    return kept


def _widths(model: ModelArchitecture, batch: ConfigBatch, kind: Literal["dense", "moe"]) -> Mapping[Product, Any]:
    """Widths of the products of a layer. Split results are T times shorter, gathered ones are not."""
    experts = model.experts
    shared = experts.shared_expert_ffn_hidden_size if experts is not None else 0
    inner = float(model.ffn_hidden_size if kind == "dense" else shared)
    output: FloatArray = model.hidden_size * batch.tensor_parallel_size.astype(np.float64)
    return {
        **_attention_widths(model, batch),
        "attention_output": output,
        "router": float(experts.num_experts if experts is not None else 0),
        "mlp_gate": inner,
        "mlp_up": inner,
        "mlp_down": output,
    }


def _attention_widths(model: ModelArchitecture, batch: ConfigBatch) -> Mapping[Product, Any]:
    tensor: FloatArray = batch.tensor_parallel_size.astype(np.float64)
    heads, latent = model.num_attention_heads, model.latent_attention
    if latent is None:
        keys = np.maximum(model.num_key_value_heads, tensor) * float(model.head_dim)
        return {"query": float(heads * model.head_dim), "key": keys, "value": keys}
    return {
        "query_down": latent.query_rank * tensor,
        "query": float(heads * (latent.unrotated_head_dim + latent.rotated_head_dim)),
        "key_value_down": (latent.key_value_rank + latent.rotated_head_dim) * tensor,
        "key_value_up": float(heads * (latent.unrotated_head_dim + latent.value_head_dim)),
    }
