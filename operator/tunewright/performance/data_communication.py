"""Seconds of what happens once per step on each pipeline rank: gradient reduction, parameter gather, optimizer.

Called by `step`. The widest rank of the pipeline counts. Sources: Megatron-LM's distributed optimizer, torch FSDP2.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tunewright.domain.config_batch import ConfigBatch, FloatArray, IntArray
from tunewright.domain.degrees import Degrees
from tunewright.domain.gradient_width import reduced_gradient_bytes
from tunewright.domain.parameter_placement import PlacedParameters, place_parameters
from tunewright.domain.pipeline_layout import StageTable
from tunewright.domain.problem import TuningProblem
from tunewright.performance.collectives import Collectives
from tunewright.performance.placement import Group, Groups
from tunewright.performance.software import Software

_Collective = Callable[[Group, FloatArray], FloatArray]

PARAMETER_BYTES = 2.0


@dataclass(frozen=True, eq=False)
class DataSeconds:
    """Per row, before any overlap. FSDP2 pays its collectives for each micro batch, the others once per step."""

    gradient_reduction: FloatArray
    parameter_gather: FloatArray
    updated_parameters: FloatArray
    """Parameters whose optimizer state this rank holds, on its widest pipeline rank."""
    held_parameters: FloatArray


def data_seconds(
    problem: TuningProblem,
    batch: ConfigBatch,
    table: StageTable,
    groups: Groups,
    collectives: Collectives,
    software: Software,
) -> DataSeconds:
    """Return the data-parallel work of the widest pipeline rank of every row."""
    shared, routed = _widest(place_parameters(problem, batch, table))
    distributed, sharded = batch.is_("optimizer", "distributed"), batch.is_("optimizer", "fsdp2")
    width = np.where(batch.is_("precision", "fp32"), 4.0, PARAMETER_BYTES)
    gradient = reduced_gradient_bytes(problem, batch, software.gradient_bytes)
    units = np.where(sharded, _sharded_units(table), 1)
    scatter = units * _over_groups(
        collectives.reduce_scatter, groups, shared * gradient / units, routed * gradient / units
    )
    reduce = _over_groups(collectives.all_reduce, groups, shared * gradient, routed * gradient)
    gather = units * _over_groups(collectives.all_gather, groups, shared * width / units, routed * width / units)
    spread = distributed | sharded
    degrees = Degrees.of(problem, batch)
    data = degrees.data_parallel_size * batch.context_parallel_size
    updated = np.where(spread, shared / data + routed / degrees.expert_data_parallel_size, shared + routed)
    per_step = np.where(sharded, degrees.num_micro_batches, 1)
    return DataSeconds(
        gradient_reduction=np.where(spread, scatter, reduce) * per_step,
        parameter_gather=np.where(spread, gather, 0.0) * np.where(sharded, 2, 1) * per_step,
        updated_parameters=updated,
        held_parameters=np.where(sharded, updated, shared + routed),
    )


def _sharded_units(table: StageTable) -> IntArray:
    """Messages of one pass under FSDP2, on the rank with most layers: one for each layer, and one for the ends."""
    dense, moe = table.per_rank()
    units: IntArray = (dense + moe).max(axis=1) + 1
    return units


def _widest(placed: PlacedParameters) -> tuple[FloatArray, FloatArray]:
    """Return what data ranks share and the routed experts, on the pipeline rank that holds most of both."""
    rank = (placed.dense + placed.experts).argmax(axis=1)[:, None]
    shared = np.take_along_axis(placed.dense, rank, axis=1)[:, 0]
    routed = np.take_along_axis(placed.experts, rank, axis=1)[:, 0]
    return shared, routed


def _over_groups(
    collective: _Collective, groups: Groups, shared_bytes: FloatArray, routed_bytes: FloatArray
) -> FloatArray:
    return collective(groups.data, shared_bytes) + collective(groups.expert_data, routed_bytes)
