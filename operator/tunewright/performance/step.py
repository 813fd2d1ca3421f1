"""Step time of every configuration, as named parts whose sum is the total. Called by search, planner, `projection`.

The parts are those of the busiest pipeline rank: its compute, its exposed collectives, what it waits for, and what
happens once per step. Utilisation counts causal attention; the model's leaves recomputation out, the hardware's
counts it. Both are over the dense peak of the row's precision times the world size.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tunewright.domain.config_batch import ConfigBatch, FloatArray, IntArray
from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import PRECISIONS
from tunewright.performance.collectives import Collectives
from tunewright.performance.compute import analytic_layer_times
from tunewright.performance.constants import Efficiency, OverlapShares
from tunewright.performance.flops import model_flops_per_step, recomputed_per_step
from tunewright.performance.gemm import peak_flops_per_second
from tunewright.performance.layer_times import LayerTimes
from tunewright.performance.pipeline.simulate import StageTimes
from tunewright.performance.software import Software
from tunewright.performance.step_parts import StepModel
from tunewright.trial_protocol.report import CollectiveTiming

_EXPERT_OVERLAP = 0.8
"""Share of a MoE layer's compute that hides dispatch and combine when two micro batches run beside each other."""

_MAX_ELEMENTS = 1_000_000
"""Rows times ranks times chunks at once: 8 MB for each array of the pipeline."""

_FEW_CHUNKS = 2
"""Chunks of a rank in every schedule but interleaving."""

_ONCE_PER_STEP = ("gradientReduction", "parameterGather", "optimizer", "hostOverhead")


@dataclass(frozen=True, eq=False)
class StepEstimate:
    """One entry a row. `parts` is ordered and sums to `step_seconds`."""

    parts: Mapping[str, FloatArray]
    tokens_per_second_per_gpu: FloatArray
    model_flops_utilisation: FloatArray
    hardware_flops_utilisation: FloatArray

    @cached_property
    def step_seconds(self) -> FloatArray:
        """One optimizer step, end to end."""
        return _sum(self.parts.values(), len(self.tokens_per_second_per_gpu))

    @cached_property
    def pipeline_seconds(self) -> FloatArray:
        """First forward to last backward pass."""
        during = [seconds for name, seconds in self.parts.items() if name not in _ONCE_PER_STEP]
        return _sum(during, len(self.tokens_per_second_per_gpu))

    @property
    def bubble_fraction(self) -> FloatArray:
        """Idle share of the pipeline phase on the busiest rank, transfers included."""
        idle = self.parts["pipelineTransfer"] + self.parts["pipelineBubble"]
        return np.asarray(idle / self.pipeline_seconds, dtype=np.float64)


def estimate(
    problem: TuningProblem,
    batch: ConfigBatch,
    times: LayerTimes | None = None,
    measured_collectives: Sequence[CollectiveTiming] = (),
    *,
    efficiency: Efficiency | None = None,
    overlap: OverlapShares | None = None,
    software: Software | None = None,
) -> StepEstimate:
    """Estimate the step of every row; layer times and in-node collectives may come from a trial."""
    efficiency, software = efficiency or Efficiency.of(problem.cluster.accelerator), software or Software()
    times = times or analytic_layer_times(problem, batch, efficiency, software)
    collectives = Collectives(problem.cluster, tuple(measured_collectives), efficiency)
    shares = overlap or default_overlap(problem, software)
    parts: dict[str, FloatArray] = {}
    for rows in _row_chunks(batch):
        model = StepModel(problem, batch.take(rows), times.take(rows), collectives, shares, efficiency, software)
        for name, seconds in model.parts().items():
            parts.setdefault(name, np.zeros(len(batch)))[rows] = seconds
    return _with_throughput(problem, batch, parts)


def stage_seconds(problem: TuningProblem, batch: ConfigBatch) -> StageTimes:
    """Return what every pipeline rank and chunk takes per micro batch; rows of one pipeline depth."""
    efficiency, software = Efficiency.of(problem.cluster.accelerator), Software()
    times = analytic_layer_times(problem, batch, efficiency, software)
    collectives, shares = Collectives(problem.cluster, (), efficiency), default_overlap(problem, software)
    return StepModel(problem, batch, times, collectives, shares, efficiency, software).stages


def default_overlap(problem: TuningProblem, software: Software) -> OverlapShares:
    """Return the shares that hold for a launcher: the builtin runner waits for every collective."""
    if problem.backend == "builtin" or problem.cluster.accelerator.vendor == "cpu":
        return OverlapShares.nothing()
    share = problem.cluster.accelerator.calibration.tensor_overlap if software.overlaps_tensor else 0.0
    expert = _EXPERT_OVERLAP if software.overlaps_expert else 0.0
    return OverlapShares(tensor_forward=share, tensor_backward=share, expert=expert)


def _row_chunks(batch: ConfigBatch) -> Iterator[IntArray]:
    """Yield rows of equal pipeline depth, with few or with many chunks a rank: arrays are as wide as the largest."""
    ranks, chunks = batch.pipeline_parallel_size, batch.virtual_pipeline_parallel_size
    keys = ranks * 2 + (chunks > _FEW_CHUNKS)
    for key in np.flatnonzero(np.bincount(keys)):
        rows = np.flatnonzero(keys == key)
        # Rows that are simulated together stay together.
        rows = rows[np.lexsort((chunks[rows], batch.columns["pipeline_schedule"][rows]))]
        size = max(1, _MAX_ELEMENTS // (int(key // 2) * int(chunks[rows].max())))
        yield from (rows[start : start + size] for start in range(0, len(rows), size))


def _with_throughput(problem: TuningProblem, batch: ConfigBatch, parts: dict[str, FloatArray]) -> StepEstimate:
    step, world = _sum(parts.values(), len(batch)), problem.world_size
    peaks = np.array([peak_flops_per_second(problem.cluster.accelerator, name) for name in PRECISIONS])
    capacity = step * world * peaks[batch.precision]
    model = model_flops_per_step(problem)
    return StepEstimate(
        parts=parts,
        tokens_per_second_per_gpu=problem.tokens_per_step / (step * world),
        model_flops_utilisation=model / capacity,
        hardware_flops_utilisation=(model + recomputed_per_step(problem, batch)) / capacity,
    )


def _sum(parts: Iterable[FloatArray], rows: int) -> FloatArray:
    return sum(parts, np.zeros(rows))
