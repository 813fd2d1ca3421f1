"""Activations per pipeline rank: layers by kind, micro batches in flight, and what recomputation changes.

Used by `estimate`. `selective` frees parts of each layer; `full` keeps only the input of each recomputed unit and
brings one unit at a time back: uniform n makes units of n layers, block recomputes the first n layers of each chunk.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tunewright.domain.config_batch import BoolArray, ConfigBatch, FloatArray, IntArray
from tunewright.domain.degrees import Degrees
from tunewright.domain.pipeline_layout import StageTable
from tunewright.domain.problem import TuningProblem
from tunewright.memory import activations_torch, activations_torchtitan, activations_transformer_engine
from tunewright.memory.saved_bytes import PARTS, SavedBytes, total
from tunewright.memory.software import Software

RECOMPUTE_INPUTS = "recompute_inputs"
HEAD = "head"


@dataclass(frozen=True)
class Activations:
    """Bytes per rank, shape (rows, ranks)."""

    by_part: Mapping[str, FloatArray]
    """What waits for its backward, all micro batches in flight: the parts of a layer, recompute inputs, head."""
    working_unit: FloatArray
    """What recomputation brings back for one unit (a layer of `selective`) beyond what has been freed by then."""


def saved_bytes(problem: TuningProblem, batch: ConfigBatch, degrees: Degrees, software: Software) -> SavedBytes:
    """Return the per-layer table of the problem's implementation."""
    if problem.backend == "torchtitan":
        return activations_torchtitan.saved_bytes(problem, batch, degrees, software)
    if problem.implementation == "torch":
        return activations_torch.saved_bytes(problem, batch, degrees)
    return activations_transformer_engine.saved_bytes(problem, batch, degrees, software)


def activations(
    batch: ConfigBatch, table: StageTable, saved: SavedBytes, in_flight: FloatArray, heads: FloatArray
) -> Activations:
    """Return saved activations of every rank.

    `in_flight` counts micro batches of a whole rank; `heads` counts output layers by rank, both (rows, ranks).
    """
    kept = _kept_layers(batch, table)
    by_part = {part: in_flight * _kept_by_rank(kept, saved, part) for part in PARTS}
    by_part[RECOMPUTE_INPUTS] = in_flight * kept.units * saved.layer_input[:, None]
    by_part[HEAD] = in_flight * heads * saved.head[:, None]
    return Activations(by_part, _working_unit(batch, table, saved, kept))


@dataclass(frozen=True)
class _KeptLayers:
    """Layers whose saved tensors stay, recomputed layers, and units of recomputation; each (rows, ranks)."""

    dense: IntArray
    moe: IntArray
    recomputed_dense: IntArray
    recomputed_moe: IntArray
    units: IntArray

    def take(self, rows: IntArray) -> "_KeptLayers":
        """Select rows."""
        return _KeptLayers(**{name: column[rows] for name, column in vars(self).items()})


def _kept_layers(batch: ConfigBatch, table: StageTable) -> _KeptLayers:
    """Count on one row of each distinct layout and recomputation, of which there are few."""
    full, block = batch.is_("recompute_granularity", "full"), batch.is_("recompute_method", "block")
    count = np.where(full, batch.recompute_num_layers, 1)
    kinds = ((table.index * 2 + full) * 2 + block) * (count.max(initial=1) + 1) + count
    _, first, index = np.unique(kinds, return_index=True, return_inverse=True)
    layouts = table.index[first]
    return _count_layers(table.dense[layouts], table.moe[layouts], full[first], block[first], count[first]).take(index)


def _count_layers(dense: IntArray, moe: IntArray, full: BoolArray, block: BoolArray, count: IntArray) -> _KeptLayers:
    """Count from layers of shape (rows, ranks, chunks) and the recomputation of each row."""
    full, block, count = full[:, None, None], block[:, None, None], count[:, None, None]
    layers = dense + moe
    recomputed = np.where(full, np.where(block, np.minimum(count, layers), layers), 0)
    recomputed_dense = np.minimum(recomputed, dense)  # dense layers lead, so the first n of a chunk take them first
    units = np.where(block, recomputed, -(-recomputed // count))
    return _KeptLayers(
        dense=(dense - recomputed_dense).sum(axis=2),
        moe=(moe - (recomputed - recomputed_dense)).sum(axis=2),
        recomputed_dense=recomputed_dense.sum(axis=2),
        recomputed_moe=(recomputed - recomputed_dense).sum(axis=2),
        units=units.sum(axis=2),
    )


def _kept_by_rank(kept: _KeptLayers, saved: SavedBytes, part: str) -> FloatArray:
    """Bytes of one part in the kept layers of a micro batch, (rows, ranks); most parts are of one kind of layer."""
    kinds = ((kept.dense, saved.dense), (kept.moe, saved.moe))
    present = [layers * layer[part].kept[:, None] for layers, layer in kinds if part in layer]
    return present[0] + present[1] if len(present) > 1 else present[0] if present else np.zeros(kept.dense.shape)


def _working_unit(batch: ConfigBatch, table: StageTable, saved: SavedBytes, kept: _KeptLayers) -> FloatArray:
    """Recomputed bytes alive at once.

    Under `full`, the layers of the same chunk that were kept have run their backward by then, so that only the excess
    over them counts.
    """
    dense, moe = table.per_rank()
    selective = _largest(total(saved.dense, "dropped"), dense > 0, total(saved.moe, "dropped"), moe > 0)
    whole = _largest(
        total(saved.dense, "whole"), kept.recomputed_dense > 0, total(saved.moe, "whole"), kept.recomputed_moe > 0
    )
    chunks = batch.virtual_pipeline_parallel_size[:, None]
    freed = (
        kept.dense * total(saved.dense, "whole")[..., None] + kept.moe * total(saved.moe, "whole")[..., None]
    ) / chunks
    layers_in_unit = np.where(
        batch.is_("recompute_method", "uniform")[:, None],
        np.minimum(batch.recompute_num_layers[:, None], -(-(dense + moe) // chunks)),
        1,
    )
    unit = np.maximum(whole * layers_in_unit - freed, 0.0)
    working = np.where(batch.is_("recompute_granularity", "full")[:, None], unit, selective)
    positive: FloatArray = np.maximum(working, 0.0)  # eager MLA keeps more when its up projections are recomputed
    return positive


def _largest(dense: FloatArray, has_dense: BoolArray, moe: FloatArray, has_moe: BoolArray) -> FloatArray:
    """Return the larger layer's bytes among the kinds that a rank has, shape (rows, ranks)."""
    largest: FloatArray = np.maximum(dense[..., None] * has_dense, moe[..., None] * has_moe)
    return largest
