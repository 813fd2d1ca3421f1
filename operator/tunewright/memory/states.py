"""Model states per pipeline rank: weights, gradients and optimizer. Used by `estimate`.

Mixed precision keeps 2 + 4 + 12 bytes a parameter (bf16 weight, fp32 main gradient, fp32 master and two moments). The
distributed optimizer shards the 12 over data and context ranks together, D·C = W/(T·P), and those of routed experts
over W/(ET·E·P); FSDP2 shards all 18, and holds the layers at work whole (Megatron-LM, `megatron/core/optimizer` and
`distributed`). In fp32 the weight is its own master: 4 + 4 + 8.
"""

from dataclasses import dataclass

import numpy as np

from tunewright.domain.config_batch import BoolArray, ConfigBatch, FloatArray
from tunewright.domain.degrees import Degrees
from tunewright.domain.hardware import Accelerator
from tunewright.domain.pipeline_layout import StageTable
from tunewright.domain.problem import TuningProblem
from tunewright.memory.constants import MemoryConstants
from tunewright.memory.placement import PlacedParameters, place_parameters

TRANSPOSE_FREE_ARCHITECTURES = ("sm_10", "sm_11", "sm_12")
"""Blackwell multiplies fp8 matrices of any layout: Transformer Engine keeps no column-wise copy there."""


@dataclass(frozen=True)
class States:
    """Bytes per rank, shape (rows, ranks)."""

    weights: FloatArray
    weight_casts: FloatArray
    """fp8 copies of linear weights, kept over the micro batches of a step."""
    gathered_weights: FloatArray
    """Whole layers under FSDP2."""
    gradients: FloatArray
    unreduced_gradients: FloatArray
    """The whole gradient of the layer at work under FSDP2."""
    optimizer: FloatArray


def states(
    problem: TuningProblem, batch: ConfigBatch, degrees: Degrees, table: StageTable, constants: MemoryConstants
) -> States:
    """Return the states of every rank."""
    placed = place_parameters(problem, batch, table)
    fp32 = batch.is_("precision", "fp32")
    weight = np.where(fp32, 4.0, 2.0)
    optimizer = np.where(fp32, 0.0, constants.master_bytes) + 2 * constants.moment_bytes
    sharded = _over_data_ranks(problem, batch, degrees, placed)
    fsdp = batch.is_("optimizer", "fsdp2")
    held = np.where(fsdp[:, None], sharded, placed.dense + placed.experts)
    optimized = np.where(batch.is_("optimizer", "replicated")[:, None], placed.dense + placed.experts, sharded)
    gathered = _gathered(placed, constants.fsdp_gathered_layers) * weight * fsdp
    exists = table.rank_exists()
    return States(
        weights=held * weight[:, None],
        weight_casts=placed.linear * _cast_bytes(problem, batch, degrees)[:, None],
        gathered_weights=gathered[:, None] * exists,
        gradients=held * constants.gradient_bytes,
        unreduced_gradients=(_gathered(placed, 1) * weight * fsdp)[:, None] * exists,
        optimizer=optimized * optimizer[:, None],
    )


def _over_data_ranks(
    problem: TuningProblem, batch: ConfigBatch, degrees: Degrees, placed: PlacedParameters
) -> FloatArray:
    """Return parameters per rank after sharding over D·C (experts over the expert data ranks)."""
    stage = batch.tensor_parallel_size * batch.pipeline_parallel_size
    data_and_context = np.maximum(problem.world_size // stage, 1)
    shard: FloatArray = (
        placed.dense / data_and_context[:, None] + placed.experts / degrees.expert_data_parallel_size[:, None]
    )
    return shard


def _gathered(placed: PlacedParameters, layers: int) -> FloatArray:
    """Return parameters of `layers` units that FSDP2 holds whole: layers, the last perhaps a vocabulary matrix."""
    last = np.maximum(placed.largest_layer, placed.vocabulary_matrix)
    whole: FloatArray = (layers - 1) * placed.largest_layer + last
    return whole


def _cast_bytes(problem: TuningProblem, batch: ConfigBatch, degrees: Degrees) -> FloatArray:
    """Return bytes of cached fp8 copies per linear weight, per row.

    One byte, and one more for the column-wise copy that mxfp8 and GEMMs without transposed operands need. With a
    single micro batch there is nothing to reuse; our own program casts at every use.
    """
    if problem.implementation == "torch":
        return np.zeros(len(batch))
    column_wise = not _multiplies_any_layout(problem.cluster.accelerator)
    fp8: BoolArray = batch.is_("precision", "fp8")
    per_weight = np.where(batch.is_("precision", "mxfp8"), 2.0, np.where(fp8, 1.0 + column_wise, 0.0))
    cached: FloatArray = per_weight * (degrees.num_micro_batches > 1)
    return cached


def _multiplies_any_layout(accelerator: Accelerator) -> bool:
    return accelerator.architecture.startswith(TRANSPOSE_FREE_ARCHITECTURES)
