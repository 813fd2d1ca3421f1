"""Rules on number formats: what the device has, and the shapes that 8-bit matrix products take.

Source: NVIDIA/TransformerEngine, `transformer_engine/pytorch/utils.py` (shape checks of fp8 execution): widths are
multiples of 16 and rows of 8; weight gradients, where rows become the inner dimension, want 16. mxfp8 has blocks of 32.
"""

from collections.abc import Iterator

import numpy as np

from tunewright.domain.config_batch import BoolArray, IntArray
from tunewright.domain.training_config import PRECISIONS
from tunewright.legality.rule import Finding, RuleContext

_FP8_BLOCK = 16
_MXFP8_BLOCK = 32


def precision_is_in_device(context: RuleContext) -> Finding:
    """The accelerator computes in this precision."""
    batch, accelerator = context.batch, context.problem.cluster.accelerator
    available = [name for name in PRECISIONS if name in accelerator.peak_flops_per_second]

    def message(row: int) -> str:
        precision = context.name_of("precision", row)
        return f"precision {precision}: {accelerator.name} does not have it; use {' or '.join(available)}"

    return Finding(~batch.is_("precision", *available), message)


def fp8_widths_are_whole_blocks(context: RuleContext) -> Finding:
    """In fp8 every matrix width on a rank is a multiple of 16 (mxfp8: 32)."""
    block = _block(context)
    violated = np.zeros(len(context.batch), dtype=bool)
    for _, whole, parts in _widths(context):
        violated |= _breaks(whole, parts, block)

    def message(row: int) -> str:
        broken = [
            f"{name} {whole // int(parts[row])}"
            for name, whole, parts in _widths(context)
            if _breaks(whole, parts, block)[row]
        ]
        precision = context.name_of("precision", row)
        return (
            f"precision {precision}: {', '.join(broken)} on a rank must be a multiple of {block[row]}; "
            "lower tensorParallelSize or expertTensorParallelSize, or use bf16"
        )

    return Finding(_eight_bit(context) & violated, message)


def fp8_rows_are_whole_blocks(context: RuleContext) -> Finding:
    """In fp8 the tokens of a micro batch on a rank are a multiple of 16 (mxfp8: 32)."""
    batch, block = context.batch, _block(context)
    # The down projections of latent attention run on the sequence-parallel share.
    share = batch.tensor_parallel_size if context.model.latent_attention else np.ones_like(batch.tensor_parallel_size)
    tokens = context.degrees.tokens_per_micro_batch

    def message(row: int) -> str:
        precision, rows = context.name_of("precision", row), tokens[row] // share[row]
        return (
            f"precision {precision}: {rows} tokens of a micro batch on a rank must be "
            f"a multiple of {block[row]}; raise microBatchSize, lower contextParallelSize, or use bf16"
        )

    return Finding(_eight_bit(context) & (tokens % share == 0) & (tokens // share % block != 0), message)


def _eight_bit(context: RuleContext) -> BoolArray:
    return context.batch.is_("precision", "fp8", "mxfp8")


def _block(context: RuleContext) -> IntArray:
    return np.where(context.batch.is_("precision", "mxfp8"), _MXFP8_BLOCK, _FP8_BLOCK).astype(np.int64)


def _breaks(whole: int, parts: IntArray, block: IntArray) -> BoolArray:
    """A width that its group divides, but not into blocks; an indivisible one breaks another rule."""
    broken: BoolArray = (whole % parts == 0) & (whole // parts % block != 0)
    return broken


def _widths(context: RuleContext) -> Iterator[tuple[str, int, IntArray]]:
    """Name, whole width and number of parts of every side of a linear layer, the head excepted (it stays in bf16)."""
    model, batch = context.model, context.batch
    tensor, one = batch.tensor_parallel_size, np.ones_like(batch.tensor_parallel_size)
    heads = model.num_attention_heads
    yield "hidden size", model.hidden_size, one
    latent = model.latent_attention
    if latent is None:
        yield "attention width", heads * model.head_dim, tensor
        yield "QKV width", (heads + 2 * model.num_key_value_heads) * model.head_dim, tensor
    else:
        yield "query rank", latent.query_rank, one
        yield "key/value rank", latent.key_value_rank, one
        yield "key/value down projection", latent.key_value_rank + latent.rotated_head_dim, one
        yield "query width", heads * (latent.unrotated_head_dim + latent.rotated_head_dim), tensor
        yield "key/value width", heads * (latent.unrotated_head_dim + latent.value_head_dim), tensor
        yield "attention width", heads * latent.value_head_dim, tensor
    if model.num_dense_layers:
        yield "MLP width", model.ffn_hidden_size, tensor
    if model.experts is not None:
        yield "expert width", model.experts.expert_ffn_hidden_size, batch.expert_tensor_parallel_size
        yield "shared expert width", model.experts.shared_expert_ffn_hidden_size, tensor
