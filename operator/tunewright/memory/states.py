"""Model states per pipeline rank: weights, gradients and optimizer. Used by `estimate`.

Mixed precision keeps 2 + 4 + 12 bytes a parameter (bf16 weight, fp32 main gradient, fp32 master and two moments). The
distributed optimizer shards the 12 over data and context ranks together, D·C = W/(T·P), and those of routed experts
over W/(ET·E·P); FSDP2 shards all 18, and holds the layers at work whole (Megatron-LM, `megatron/core/optimizer` and
`distributed`). In fp32 the weight is its own master: 4 + 4 + 8, and so it is in torchtitan, which shards fp32 weights
and gathers them in bf16; with pipeline ranks it keeps a stage's weights and gradients whole from its first micro batch
to its last (`reshard_after_forward: default`).
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
from tunewright.memory.software import Software

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
    optimizer_step: FloatArray
    """Copies that exist only while the optimizer steps, when no activation is alive."""


def states(
    problem: TuningProblem,
    batch: ConfigBatch,
    degrees: Degrees,
    table: StageTable,
    constants: MemoryConstants,
    software: Software,
) -> States:
    """Return the states of every rank."""
    placed = place_parameters(problem, batch, table)
    element = np.where(batch.is_("precision", "fp32"), 4.0, 2.0)
    wide = batch.is_("precision", "fp32") | (problem.backend == "torchtitan")
    optimizer = np.where(wide, 0.0, software.master_bytes) + 2 * software.moment_bytes
    shards = _over_data_ranks(problem, batch, degrees, placed)
    everything = placed.dense + placed.experts
    fsdp = batch.is_("optimizer", "fsdp2")
    held = np.where(fsdp[:, None], shards.total, everything)
    optimized = np.where(batch.is_("optimizer", "replicated")[:, None], everything, shards.total)
    at_work = fsdp[:, None] * table.rank_exists()
    whole = _stays_whole(problem, batch)
    gathered = np.where(whole, everything, _gathered(placed, constants.fsdp_gathered_layers)[:, None])
    unreduced = np.where(whole, everything * 4.0, (_gathered(placed, 1) * _reduced_bytes(problem, element))[:, None])
    return States(
        weights=held * np.where(wide, 4.0, element)[:, None],
        weight_casts=placed.linear * _cast_bytes(problem, batch, degrees)[:, None],
        gathered_weights=gathered * element[:, None] * at_work,
        gradients=held * software.gradient_bytes,
        unreduced_gradients=unreduced * at_work,
        optimizer=optimized * optimizer[:, None],
        optimizer_step=np.maximum(shards.dense, shards.experts) * software.step_bytes,
    )


def _stays_whole(problem: TuningProblem, batch: ConfigBatch) -> BoolArray:
    """Return where FSDP2 does not shard a stage's weights again after each micro batch, shape (rows, 1)."""
    whole: BoolArray = ((problem.backend == "torchtitan") & (batch.pipeline_parallel_size > 1))[:, None]
    return whole


def _reduced_bytes(problem: TuningProblem, element: FloatArray) -> FloatArray:
    """Bytes of a gradient in its reduction: torchtitan's are widened to fp32 before."""
    return np.full_like(element, 4.0) if problem.backend == "torchtitan" else element


@dataclass(frozen=True)
class _Shards:
    dense: FloatArray
    experts: FloatArray

    @property
    def total(self) -> FloatArray:
        return self.dense + self.experts


def _over_data_ranks(
    problem: TuningProblem, batch: ConfigBatch, degrees: Degrees, placed: PlacedParameters
) -> _Shards:
    """Return parameters per rank after sharding over D·C (experts over the expert data ranks)."""
    stage = batch.tensor_parallel_size * batch.pipeline_parallel_size
    data_and_context = np.maximum(problem.world_size // stage, 1)
    return _Shards(
        placed.dense / data_and_context[:, None], placed.experts / degrees.expert_data_parallel_size[:, None]
    )


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
