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
from tunewright.domain.gradient_width import reduced_gradient_bytes
from tunewright.domain.hardware import Accelerator
from tunewright.domain.parameter_placement import PlacedParameters, place_parameters
from tunewright.domain.pipeline_layout import StageTable
from tunewright.domain.problem import TuningProblem
from tunewright.memory.constants import MemoryConstants
from tunewright.memory.logits import is_eager
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
    wide = batch.is_("precision", "fp32") | software.float32_weights | (problem.backend == "torchtitan")
    optimizer = np.where(wide, 0.0, software.master_bytes) + 2 * software.moment_bytes
    shards = _over_data_ranks(problem, batch, degrees, placed)
    everything = placed.dense + placed.experts
    fsdp = batch.is_("optimizer", "fsdp2")
    held = np.where(fsdp[:, None], shards.total, everything) if fsdp.any() else everything
    optimized = np.where(batch.is_("optimizer", "replicated")[:, None], everything, shards.total)
    gathered, unreduced = _at_work(problem, batch, table, placed, element, constants)
    casts = _cast_bytes(problem, batch, degrees, software)
    return States(
        weights=held * np.where(wide, 4.0, element)[:, None] - _replaced(batch, placed, software),
        weight_casts=placed.linear * casts[:, None],
        gathered_weights=gathered,
        gradients=held * software.gradient_bytes,
        unreduced_gradients=unreduced,
        optimizer=optimized * optimizer[:, None],
        optimizer_step=np.maximum(shards.dense, shards.experts) * software.step_bytes,
    )


def _replaced(batch: ConfigBatch, placed: PlacedParameters, software: Software) -> FloatArray | float:
    """Bf16 values of linear weights that are kept in fp8 alone."""
    if not software.fp8_weights:
        return 0.0
    return placed.linear * (2.0 * (batch.is_("precision", "fp8", "mxfp8") & ~batch.is_("optimizer", "fsdp2")))[:, None]


def _at_work(
    problem: TuningProblem,
    batch: ConfigBatch,
    table: StageTable,
    placed: PlacedParameters,
    element: FloatArray,
    constants: MemoryConstants,
) -> tuple[FloatArray, FloatArray]:
    """Return what FSDP2 gathers, and the gradients that it has not reduced yet."""
    fsdp = batch.is_("optimizer", "fsdp2")
    if not fsdp.any():
        return np.zeros(placed.dense.shape), np.zeros(placed.dense.shape)
    torchtitan = problem.backend == "torchtitan"
    everything = placed.dense + placed.experts
    whole = (torchtitan & (batch.pipeline_parallel_size > 1))[:, None]
    gathered = np.where(whole, everything, _gathered(placed, constants.fsdp_gathered_layers)[:, None])
    unreduced = np.where(whole, everything, _gathered(placed, 1)[:, None])
    exists = fsdp[:, None] * table.rank_exists()
    reduced = reduced_gradient_bytes(problem, batch)
    return gathered * element[:, None] * exists, unreduced * reduced[:, None] * exists


@dataclass(frozen=True)
class _Shards:
    dense: FloatArray
    experts: FloatArray

    @property
    def total(self) -> FloatArray:
        return self.dense + self.experts


def _over_data_ranks(problem: TuningProblem, batch: ConfigBatch, degrees: Degrees, placed: PlacedParameters) -> _Shards:
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


def _cast_bytes(problem: TuningProblem, batch: ConfigBatch, degrees: Degrees, software: Software) -> FloatArray:
    """Return bytes of cached fp8 copies per linear weight, per row.

    One byte, and one more for the column-wise copy that mxfp8 and GEMMs without transposed operands need. With a
    single micro batch there is nothing to reuse; torch programs cast at every use.
    """
    if is_eager(problem):
        return np.zeros(len(batch))
    column_wise = not _multiplies_any_layout(problem.cluster.accelerator)
    fp8: BoolArray = batch.is_("precision", "fp8")
    per_weight = np.where(batch.is_("precision", "mxfp8"), 2.0, np.where(fp8, 1.0 + column_wise, 0.0))
    cached: FloatArray = per_weight * ((degrees.num_micro_batches > 1) | software.fp8_weights)
    return cached


def _multiplies_any_layout(accelerator: Accelerator) -> bool:
    return accelerator.architecture.startswith(TRANSPOSE_FREE_ARCHITECTURES)
