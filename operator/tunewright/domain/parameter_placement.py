"""Parameters on every pipeline rank of a batch: dense ones (sharded by data parallelism) and routed experts.

Read by memory and performance. Counts come from `ParameterCounts`; here they are divided by T (experts by E·ET) and
put on ranks: embedding on the first, head on `StageTable.head_rank`, stored again there when it is tied to an embedding
elsewhere.
"""

from dataclasses import dataclass

import numpy as np

from tunewright.domain.config_batch import ConfigBatch, FloatArray, IntArray
from tunewright.domain.model_architecture import ModelArchitecture
from tunewright.domain.parameters import LayerParameters, ParameterCounts
from tunewright.domain.pipeline_layout import StageTable
from tunewright.domain.problem import TuningProblem

VOCABULARY_MULTIPLE = 128
"""Megatron's `make_vocab_size_divisible_by`, times T."""


@dataclass(frozen=True)
class PlacedParameters:
    """Parameters per rank, shape (rows, ranks), and of single pieces, shape (rows,)."""

    dense: FloatArray
    experts: FloatArray
    linear: FloatArray
    """Those of `dense` and `experts` that are weights of a linear inside a layer: what fp8 casts."""
    largest_layer: FloatArray
    vocabulary_matrix: FloatArray


def padded_vocabulary(model: ModelArchitecture, tensor_parallel_size: IntArray) -> IntArray:
    """Return the rows of embedding and head over all tensor ranks, per configuration.

    Megatron, and our own program after it, pad to a multiple of 128·T, so that the shards suit the GEMMs.
    """
    multiple = tensor_parallel_size * VOCABULARY_MULTIPLE
    padded: IntArray = -(-model.vocabulary_size // multiple) * multiple
    return padded


def head_is_embedding(model: ModelArchitecture, table: StageTable) -> FloatArray:
    """Return 1 where a tied head shares the embedding's storage, else 0: they must sit on one rank."""
    shared: FloatArray = ((table.head_rank() == 0) & model.tied_embeddings).astype(np.float64)
    return shared


def on_rank(table: StageTable, rank: IntArray) -> FloatArray:
    """Return 1 on the given rank of each row, 0 elsewhere, shape (rows, ranks)."""
    placed: FloatArray = (np.arange(table.max_ranks)[None, :] == rank[:, None]).astype(np.float64)
    return placed


def place_parameters(problem: TuningProblem, batch: ConfigBatch, table: StageTable) -> PlacedParameters:
    """Put the model's parameters on the ranks of every configuration."""
    counts = ParameterCounts.of(problem.model)
    dense_layers, moe_layers = (layers.astype(np.float64) for layers in table.per_rank())
    head = on_rank(table, table.head_rank())
    if problem.model.num_multi_token_prediction_layers:
        extra = head * problem.model.num_multi_token_prediction_layers
        dense_layers, moe_layers = (
            (dense_layers, moe_layers + extra) if problem.model.is_moe else (dense_layers + extra, moe_layers)
        )
    kinds = ((dense_layers, counts.dense_layer), (moe_layers, counts.moe_layer))
    tensor = batch.tensor_parallel_size
    expert_split = batch.expert_parallel_size * batch.expert_tensor_parallel_size
    dense = sum(layers * _dense_share(layer, tensor)[:, None] for layers, layer in kinds)
    experts = moe_layers * (counts.moe_layer.expert_parameters_total / expert_split)[:, None]
    linear = sum(layers * _linear_share(problem.model, layer, tensor)[:, None] for layers, layer in kinds)
    matrix = padded_vocabulary(problem.model, tensor) * problem.model.hidden_size / tensor
    return PlacedParameters(
        dense=dense + _outside_layers(problem.model, counts, table, tensor, matrix),
        experts=experts,
        linear=linear + experts,
        largest_layer=_largest_layer(counts, tensor, expert_split),
        vocabulary_matrix=matrix,
    )


def _dense_share(layer: LayerParameters, tensor: IntArray) -> FloatArray:
    share: FloatArray = layer.tensor_split / tensor + layer.replicated
    return share


def _linear_share(model: ModelArchitecture, layer: LayerParameters, tensor: IntArray) -> FloatArray:
    """Weights of linears; the few biases and MLA norms counted with them are below a thousandth."""
    down_projections = layer.attention_replicated if model.latent_attention is not None else 0
    share: FloatArray = layer.tensor_split / tensor + down_projections
    return share


def _outside_layers(
    model: ModelArchitecture, counts: ParameterCounts, table: StageTable, tensor: IntArray, matrix: FloatArray
) -> FloatArray:
    """Embedding and positions on the first rank; head, final norm and prediction projections on the head's."""
    first = on_rank(table, np.zeros_like(tensor)) * (matrix + counts.position_embedding)[:, None]
    own_head = matrix * (1 - head_is_embedding(model, table))
    depths = model.num_multi_token_prediction_layers
    projection = depths * (counts.multi_token_prediction_split / tensor + counts.multi_token_prediction_replicated)
    # a prediction depth embeds its tokens: with the embedding elsewhere, and no tied copy, it needs its own
    lacks_embedding = (table.head_rank() > 0) & (depths > 0) & (not model.tied_embeddings)
    with_head = own_head + counts.final_norm + projection + matrix * lacks_embedding
    placed: FloatArray = first + on_rank(table, table.head_rank()) * with_head[:, None]
    return placed


def _largest_layer(counts: ParameterCounts, tensor: IntArray, expert_split: IntArray) -> FloatArray:
    moe = _dense_share(counts.moe_layer, tensor) + counts.moe_layer.expert_parameters_total / expert_split
    largest: FloatArray = np.maximum(_dense_share(counts.dense_layer, tensor), moe)
    return largest
