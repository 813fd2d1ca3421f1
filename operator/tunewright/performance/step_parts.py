"""The parts of a step for one chunk of rows, from the busiest pipeline rank's point of view. Called by `step`."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import numpy as np

from tunewright.domain.config_batch import ConfigBatch, FloatArray, IntArray
from tunewright.domain.degrees import Degrees
from tunewright.domain.pipeline_layout import StageTable
from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import V_SHAPED_SCHEDULES, ZERO_BUBBLE_SCHEDULES
from tunewright.performance.collectives import Collectives
from tunewright.performance.constants import Efficiency, OverlapShares
from tunewright.performance.data_communication import DataSeconds, data_seconds
from tunewright.performance.layer_communication import (
    LayerCommunication,
    dense_layer_communication,
    moe_layer_communication,
)
from tunewright.performance.layer_times import LayerTimes
from tunewright.performance.modules import Shapes
from tunewright.performance.pipeline.automatic import with_automatic_orders
from tunewright.performance.pipeline.simulate import StageTimes, pipeline_seconds
from tunewright.performance.placement import Groups
from tunewright.performance.profile_key import profile_groups
from tunewright.performance.shared_cores import shared_pipeline_seconds
from tunewright.performance.software import Software
from tunewright.performance.stages import LayerCounts, LayerSeconds, stage_times

Seconds = TypeVar("Seconds", LayerCommunication, DataSeconds)

_DATA_FIELDS = (
    "tensor_parallel_size",
    "context_parallel_size",
    "pipeline_parallel_size",
    "virtual_pipeline_parallel_size",
    "expert_parallel_size",
    "expert_tensor_parallel_size",
    "micro_batch_size",
    "pipeline_schedule",
    "pipeline_layout",
    "precision",
    "optimizer",
)
"""Fields that change what happens once per step."""


@dataclass(frozen=True, eq=False)
class StepModel:
    """Rows whose padded pipeline arrays fit in memory together."""

    problem: TuningProblem
    batch: ConfigBatch
    times: LayerTimes
    collectives: Collectives
    shares: OverlapShares
    efficiency: Efficiency
    software: Software

    def parts(self) -> dict[str, FloatArray]:
        """Return the parts of the step in their order, seconds per row."""
        stages = self.stages
        parts = self._rank_parts(stages)
        work = sum(parts.values(), np.zeros(len(self.batch)))
        pipeline = pipeline_seconds(
            self.batch, stages, self._micro_batches, post_validation=self.software.post_validation
        )
        if self.software.automatic_orders:
            pipeline = with_automatic_orders(self.batch, stages, self._micro_batches, pipeline)
        if self.times.contention > 1.0:
            everyone = stages.total() * self._micro_batches[:, None]
            pipeline = shared_pipeline_seconds(pipeline, everyone, self.times.contention)
            share = np.where(self.batch.pipeline_parallel_size > 1, np.minimum(pipeline / work, 1.0), 1.0)
            parts, work = {name: seconds * share for name, seconds in parts.items()}, work * share
        idle = np.where(self.batch.pipeline_parallel_size > 1, np.maximum(pipeline - work, 0.0), 0.0)
        transfers = np.minimum(idle, 2 * _hops_each_way(self.batch) * stages.hop)
        parts["pipelineTransfer"] = transfers
        parts["pipelineBubble"] = idle - transfers
        return parts | self._step_parts(stages)

    @cached_property
    def stages(self) -> StageTimes:
        """Seconds of every rank and chunk per micro batch, with what stays exposed of collectives."""
        stages = stage_times(self._counts, self._dense, self._moe, self.times, self._hop_seconds())
        return stages if self.software.overlaps_pipeline else self._with_stalls(stages)

    @cached_property
    def _table(self) -> StageTable:
        return StageTable.of(self.problem.model, self.batch)

    @cached_property
    def _counts(self) -> LayerCounts:
        return LayerCounts.of(self.problem, self.batch, self._table)

    @cached_property
    def _alike(self) -> tuple[ConfigBatch, IntArray]:
        """One row of each kind of work inside a layer, of which there are few, and the kind of every row."""
        first, index = profile_groups(self.problem, self.batch)
        return self.batch.take(first), index

    @cached_property
    def _dense(self) -> LayerSeconds:
        distinct, index = self._alike
        communication = dense_layer_communication(
            self.problem,
            distinct,
            Groups.of(self.problem, distinct),
            self.collectives,
            sequence_parallel=self.software.sequence_parallel,
        )
        return LayerSeconds.of("dense", self.times, _spread(communication, index), self.shares)

    @cached_property
    def _moe(self) -> LayerSeconds:
        distinct, index = self._alike
        groups = Groups.of(self.problem, distinct)
        communication = moe_layer_communication(self.problem, distinct, groups, self.collectives)
        return LayerSeconds.of("moe", self.times, _spread(communication, index), self.shares)

    @cached_property
    def _data(self) -> DataSeconds:
        first, index = self.batch.distinct(_DATA_FIELDS)
        distinct = self.batch.take(first)
        table, groups = StageTable.of(self.problem.model, distinct), Groups.of(self.problem, distinct)
        seconds = data_seconds(self.problem, distinct, table, groups, self.collectives, self.software)
        return _spread(seconds, index)

    @cached_property
    def _micro_batches(self) -> IntArray:
        return Degrees.of(self.problem, self.batch).num_micro_batches

    def _hop_seconds(self) -> FloatArray:
        """One transfer of a micro batch's hidden state between adjacent pipeline ranks."""
        element = np.where(self.batch.is_("precision", "fp32"), 4.0, 2.0)
        message = Shapes.of(self.problem, self.batch).token_share * self.problem.model.hidden_size * element
        return self.collectives.send_receive(Groups.of(self.problem, self.batch).neighbours, message)

    def _with_stalls(self, stages: StageTimes) -> StageTimes:
        """Lengthen every pass of a chunk by the transfer behind it."""
        chunk = np.arange(stages.forward.shape[2])[None, None, :]
        used = chunk < self.batch.virtual_pipeline_parallel_size[:, None, None]
        stall = np.where(self.batch.pipeline_parallel_size > 1, self.efficiency.pipeline_stall_seconds + stages.hop, 0)
        longer = used * stall[:, None, None]
        return replace(stages, forward=stages.forward + longer, backward_input=stages.backward_input + longer)

    def _rank_parts(self, stages: StageTimes) -> dict[str, FloatArray]:
        """Seconds per step that the busiest rank works, by kind."""
        rows, busiest = np.arange(len(self.batch)), stages.total().argmax(axis=1)
        count = _Counter(self._counts, rows, busiest)
        dense, moe, times = self._dense, self._moe, self.times
        again = (count.dense - count.dense_kept, count.moe - count.moe_kept)
        per_micro_batch = {
            "computeForward": count.layers(dense.forward, moe.forward)
            + count.embedding * times.embedding_forward
            + count.head * times.head_forward,
            "computeBackward": count.layers(
                dense.backward_input + dense.backward_weight, moe.backward_input + moe.backward_weight
            )
            + count.embedding * (times.embedding_backward_input + times.embedding_backward_weight)
            + count.head * (times.head_backward_input + times.head_backward_weight),
            "recompute": again[0] * dense.recompute + again[1] * moe.recompute,
        }
        for name in ("tensor", "expert", "context"):
            both = count.layers(_there_and_back(dense, name), _there_and_back(moe, name))
            repeated = again[0] * getattr(dense, f"{name}_again") + again[1] * getattr(moe, f"{name}_again")
            per_micro_batch[f"{name}Communication"] = both + repeated
        return {name: seconds * self._micro_batches for name, seconds in per_micro_batch.items()}

    def _step_parts(self, stages: StageTimes) -> dict[str, FloatArray]:
        """What happens once per step, or per micro batch under FSDP2."""
        data, accelerator = self._data, self.problem.cluster.accelerator
        clear = self.software.gradient_bytes / (accelerator.hbm_bytes_per_second * accelerator.hbm_efficiency)
        optimizer = data.updated_parameters * self.times.optimizer_seconds_per_parameter
        on_cpu = accelerator.vendor == "cpu"
        overhead = self.efficiency.cpu_step_overhead_seconds if on_cpu else self.efficiency.step_overhead_seconds
        return {
            "gradientReduction": self._exposed_reduction(data, stages),
            "parameterGather": self._exposed_gather(data, stages),
            "optimizer": optimizer + data.held_parameters * clear,
            "hostOverhead": np.full(len(self.batch), overhead),
        }

    def _exposed_reduction(self, data: DataSeconds, stages: StageTimes) -> FloatArray:
        backward = stages.backward_input + stages.backward_weight
        once = self.shares.gradient_reduction * backward[:, 0, 0] * self._overlaps("overlap_grad_reduce")
        return self._exposed(data.gradient_reduction, once, backward)

    def _exposed_gather(self, data: DataSeconds, stages: StageTimes) -> FloatArray:
        once = self.shares.parameter_gather * stages.forward[:, 0, 0] * self._overlaps("overlap_param_gather")
        return self._exposed(data.parameter_gather, once, stages.forward)

    def _exposed(self, seconds: FloatArray, once: FloatArray, per_micro_batch: FloatArray) -> FloatArray:
        sharded = self.batch.is_("optimizer", "fsdp2")
        if sharded.any():
            always = self.shares.sharded_data * per_micro_batch.sum(axis=2).max(axis=1) * self._micro_batches
            once = np.where(sharded, always, once)
        return np.maximum(seconds - once, 0.0)

    def _overlaps(self, switch: str) -> FloatArray:
        """Zero-bubble runners wait for data-parallel collectives whatever the switch says."""
        waits = self.batch.is_("pipeline_schedule", *ZERO_BUBBLE_SCHEDULES)
        overlaps: FloatArray = ((self.batch.columns[switch] == 1) & ~waits).astype(np.float64)
        return overlaps


class _Counter:
    """The layer counts of one rank per row, over its chunks."""

    def __init__(self, counts: LayerCounts, rows: IntArray, rank: IntArray) -> None:
        self.dense = counts.dense[rows, rank].sum(axis=1)
        self.moe = counts.moe[rows, rank].sum(axis=1)
        self.dense_kept = counts.dense_kept[rows, rank].sum(axis=1)
        self.moe_kept = counts.moe_kept[rows, rank].sum(axis=1)
        self.embedding = counts.embedding[rows, rank].sum(axis=1)
        self.head = counts.head[rows, rank].sum(axis=1)

    def layers(self, dense: FloatArray, moe: FloatArray) -> FloatArray:
        """Sum over the rank's layers."""
        total: FloatArray = self.dense * dense + self.moe * moe
        return total


def _spread(seconds: Seconds, index: IntArray) -> Seconds:
    """Return the seconds of every row from those of distinct rows."""
    columns: dict[str, FloatArray] = vars(seconds)
    return type(seconds)(**{name: column[index] for name, column in columns.items()})


def _there_and_back(layer: LayerSeconds, name: str) -> FloatArray:
    both: FloatArray = getattr(layer, f"{name}_forward") + getattr(layer, f"{name}_backward")
    return both


def _hops_each_way(batch: ConfigBatch) -> IntArray:
    """Transfers between ranks on a micro batch's way: P−1, V·P−1 interleaved, 2(P−1) in V-shaped schedules."""
    ranks = batch.pipeline_parallel_size
    interleaved = batch.is_("pipeline_schedule", "interleaved-1f1b")
    v_shaped = batch.is_("pipeline_schedule", *V_SHAPED_SCHEDULES)
    chunks = np.where(interleaved, batch.virtual_pipeline_parallel_size, 1)
    hops = np.where(v_shaped, 2 * (ranks - 1), chunks * ranks - 1)
    return np.where(ranks > 1, hops, 0)
