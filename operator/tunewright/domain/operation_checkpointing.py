"""torchtitan's meaning of `selective`: which results of a layer are kept, and which are computed again.

Its policy `op` works on operations, not on modules (`torchtitan/distributed/activation_checkpoint.py`): a layer keeps
its input, the results of attention, of reduce-scatters and of every second matrix product (the first, the third, ...).
The rest is computed again, grouped expert products and all-to-alls among it. Memory counts what is kept,
performance the rest.
"""

from typing import Literal

from tunewright.domain.config_batch import BoolArray, ConfigBatch
from tunewright.domain.model_architecture import ModelArchitecture
from tunewright.domain.problem import TuningProblem

Product = Literal[
    "query_down",
    "query",
    "key",
    "value",
    "key_value_down",
    "key_value_up",
    "attention_output",
    "router",
    "mlp_gate",
    "mlp_up",
    "mlp_down",
]
"""One matrix product of a layer's forward pass. In a MoE layer the last three are the shared experts'."""


def recomputes_operations(problem: TuningProblem, batch: ConfigBatch) -> BoolArray:
    """Return the rows where `selective` means operations."""
    selective = batch.is_("recompute_granularity", "selective")
    return selective if problem.backend == "torchtitan" else selective & False


def products(model: ModelArchitecture, kind: Literal["dense", "moe"]) -> tuple[Product, ...]:
    """Return the matrix products of a layer in the order in which they run."""
    return (*_attention(model), *_feed_forward(model, kind))


def _attention(model: ModelArchitecture) -> tuple[Product, ...]:
    latent = model.latent_attention
    if latent is None:
        return ("query", "key", "value", "attention_output")
    compressed: tuple[Product, ...] = ("query_down",) if latent.query_rank else ()
    return (*compressed, "query", "key_value_down", "key_value_up", "attention_output")


def _feed_forward(model: ModelArchitecture, kind: Literal["dense", "moe"]) -> tuple[Product, ...]:
    inner: tuple[Product, ...] = ("mlp_gate", "mlp_up", "mlp_down") if model.gated_mlp else ("mlp_up", "mlp_down")
    if kind == "dense":
        return inner
    shared = model.experts is not None and model.experts.shared_expert_ffn_hidden_size > 0
    return ("router", *inner) if shared else ("router",)


def kept_products(order: tuple[Product, ...], *, compiled: bool = False) -> tuple[Product, ...]:
    """Return the products whose results are kept.

    Eager, the policy keeps the last product too, which nobody reads; compiled layers do not.
    """
    return (order[:-1] if compiled else order)[::2]


def recomputed_products(order: tuple[Product, ...]) -> tuple[Product, ...]:
    """Return the products that run again: recomputation stops before the last one, whose result nobody reads."""
    return order[:-1][1::2]
