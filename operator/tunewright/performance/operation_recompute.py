"""Seconds that torchtitan's `selective` recomputation adds to a layer's backward pass. Called by `compute`.

Which products run again is said in `domain.operation_checkpointing`; with them run the norms and activations between
them, the permutation of routed tokens, and the experts' grouped products.
"""

from collections.abc import Mapping
from typing import Literal

import numpy as np

from tunewright.domain.config_batch import FloatArray
from tunewright.domain.model_architecture import ModelArchitecture
from tunewright.domain.operation_checkpointing import Product, products, recomputed_products, recomputes_operations
from tunewright.domain.problem import TuningProblem
from tunewright.performance.gemm import Device
from tunewright.performance.modules import LayerParts, Shapes

_Shape = tuple[FloatArray, float | FloatArray, float | FloatArray]
"""Rows, inputs and outputs of one product on a rank."""


def recomputed_operations(
    problem: TuningProblem, device: Device, parts: LayerParts, kind: Literal["dense", "moe"]
) -> FloatArray:
    """Return the added seconds per row, 0 where `selective` does not mean operations."""
    chosen = recomputes_operations(problem, device.batch)
    if not chosen.any():
        return np.zeros(len(device.batch))
    model, shapes = problem.model, Shapes.of(problem, device.batch)
    sizes = _shapes(model, shapes, kind)
    again = parts.norms().forward + parts.small_kernels().forward
    for name in recomputed_products(products(model, kind)):
        again = again + _seconds(device, sizes, name)
    if kind == "dense":
        return chosen * (again + parts.activation(shapes.tokens, model.ffn_hidden_size / shapes.tensor).forward)
    if model.experts is not None and model.experts.shared_expert_ffn_hidden_size:
        width = model.experts.shared_expert_ffn_hidden_size / shapes.tensor
        again = again + parts.activation(shapes.tokens, width).forward
    routed = parts.router() + parts.experts() + parts.expert_activation()
    return chosen * (again + routed.forward - _seconds(device, sizes, "router"))


def _seconds(device: Device, sizes: Mapping[Product, _Shape], name: Product) -> FloatArray:
    rows, inputs, outputs = np.broadcast_arrays(*sizes[name])
    return device.product_seconds(rows, outputs, inputs, wide=name == "router")


def _shapes(model: ModelArchitecture, shapes: Shapes, kind: Literal["dense", "moe"]) -> Mapping[Product, _Shape]:
    tokens, hidden, experts = shapes.tokens, float(model.hidden_size), model.experts
    shared = experts.shared_expert_ffn_hidden_size if experts is not None else 0
    inner = (model.ffn_hidden_size if kind == "dense" else shared) / shapes.tensor
    return {
        **_attention_shapes(model, shapes),
        "router": (shapes.token_share, hidden, float(experts.num_experts if experts is not None else 0)),
        "mlp_gate": (tokens, hidden, inner),
        "mlp_up": (tokens, hidden, inner),
        "mlp_down": (tokens, inner, hidden),
    }


def _attention_shapes(model: ModelArchitecture, shapes: Shapes) -> Mapping[Product, _Shape]:
    """Down projections of latent attention are replicated: each rank works on its part of the tokens."""
    tokens, hidden, latent = shapes.tokens, float(model.hidden_size), model.latent_attention
    heads = model.num_attention_heads / shapes.tensor
    if latent is None:
        keys = np.maximum(model.num_key_value_heads / shapes.tensor, 1.0) * model.head_dim
        return {
            "query": (tokens, hidden, heads * model.head_dim),
            "key": (tokens, hidden, keys),
            "value": (tokens, hidden, keys),
            "attention_output": (tokens, heads * model.head_dim, hidden),
        }
    return {
        "query_down": (shapes.token_share, hidden, float(latent.query_rank)),
        "query": (tokens, latent.query_rank or hidden, heads * (latent.unrotated_head_dim + latent.rotated_head_dim)),
        "key_value_down": (shapes.token_share, hidden, float(latent.key_value_rank + latent.rotated_head_dim)),
        "key_value_up": (
            tokens,
            float(latent.key_value_rank),
            heads * (latent.unrotated_head_dim + latent.value_head_dim),
        ),
        "attention_output": (tokens, heads * latent.value_head_dim, hidden),
    }
