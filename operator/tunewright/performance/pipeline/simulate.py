"""Duration of the pipeline phase for many rows: a longest path over the static order, all rows of a shape at once.

Called by `step`. Rows that share schedule, P, V and number of micro batches run together. After some periods of P
micro batches a schedule repeats itself: the rest is extended by the slope of its steady state.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from tunewright.domain.config_batch import BoolArray, ConfigBatch, FloatArray, IntArray
from tunewright.domain.schedule.orders import splits_backward
from tunewright.domain.training_config import PIPELINE_SCHEDULES, V_SHAPED_SCHEDULES, PipelineSchedule
from tunewright.performance.pipeline.graph import Graph, graph_of

PERIODS_SIMULATED: Mapping[PipelineSchedule, int] = {name: 4 for name in PIPELINE_SCHEDULES} | {
    "interleaved-1f1b": 3,
    "zero-bubble-v": 10,
}
"""Micro batches that are simulated at most, in units of P, but for the remainder of M divided by P.

Fewer where that changes nothing to speak of. ZBV has most: its first rank, which has embedding and head, is late only
when it has used up the gaps that the others leave it at the end.
"""

_MAX_ELEMENTS = 131_072
"""Results that are kept at once, rows times ranks times levels: a megabyte, so that it stays in the cache."""


@dataclass(frozen=True, eq=False)
class StageTimes:
    """Seconds per micro batch of every row, rank and chunk, shape (rows, ranks, chunks), and of one hop, (rows,)."""

    forward: FloatArray
    backward_input: FloatArray
    backward_weight: FloatArray
    hop: FloatArray

    def take(self, rows: IntArray) -> "StageTimes":
        """Select rows."""
        return StageTimes(self.forward[rows], self.backward_input[rows], self.backward_weight[rows], self.hop[rows])

    def total(self) -> FloatArray:
        """Return the work of a rank per micro batch, shape (rows, ranks)."""
        return _over_chunks(self.forward + self.backward_input + self.backward_weight)


def _over_chunks(values: FloatArray) -> FloatArray:
    """Sum over the last axis; it is short, where numpy's own sum is slow."""
    total: FloatArray = values[:, :, 0].copy()
    for chunk in range(1, values.shape[2]):
        total += values[:, :, chunk]
    return total


def pipeline_seconds(
    batch: ConfigBatch, times: StageTimes, num_micro_batches: IntArray, *, post_validation: bool = False
) -> FloatArray:
    """Return the seconds from the first forward to the last backward pass of a step, per row.

    With `post_validation` ranks start their next step without waiting for each other, so that a step lasts as long as
    the longest from a rank's first start to its own last end (Qi et al. 2024).
    """
    single = batch.pipeline_parallel_size == 1
    seconds = np.where(single, times.total()[:, 0] * num_micro_batches, 0.0)
    for shape, rows in _groups(batch, num_micro_batches, ~single):
        seconds[rows] = _simulate_group(shape, rows, times, num_micro_batches[rows], post_validation)
    return seconds


@dataclass(frozen=True)
class _Shape:
    schedule: PipelineSchedule
    ranks: int
    chunks: int
    micro_batches: int
    """Simulated ones."""
    is_own_chunks: bool
    """False where a row's virtual pipeline size is not its schedule's: illegal, its work is spread evenly."""


def _groups(batch: ConfigBatch, micro_batches: IntArray, selected: BoolArray) -> Iterator[tuple[_Shape, IntArray]]:
    """Yield each distinct shape with the indices of its rows."""
    interleaved = batch.is_("pipeline_schedule", "interleaved-1f1b")
    v_shaped = batch.is_("pipeline_schedule", *V_SHAPED_SCHEDULES)
    chunks = np.where(interleaved, batch.virtual_pipeline_parallel_size, np.where(v_shaped, 2, 1))
    ranks = batch.pipeline_parallel_size
    whole = _whole_groups(ranks, micro_batches, interleaved)
    periods = np.array([PERIODS_SIMULATED[name] for name in PIPELINE_SCHEDULES])
    cap = periods[batch.columns["pipeline_schedule"]] * ranks
    simulated = np.where(whole > cap, cap + whole % ranks, whole)
    own = batch.virtual_pipeline_parallel_size == chunks
    key = ((batch.columns["pipeline_schedule"] * 8192 + ranks) * 512 + chunks) * 2 + own
    key = key * 2**20 + np.minimum(simulated, 2**20 - 1)
    distinct, inverse = np.unique(np.where(selected, key, -1), return_inverse=True)
    order = np.argsort(inverse, kind="stable")
    bounds = np.searchsorted(inverse[order], np.arange(len(distinct) + 1))
    for value, start, stop in zip(distinct, bounds[:-1], bounds[1:], strict=True):
        if value >= 0:
            rows = order[start:stop]
            row = int(rows[0])
            schedule = PIPELINE_SCHEDULES[int(batch.columns["pipeline_schedule"][row])]
            yield _Shape(schedule, int(ranks[row]), int(chunks[row]), int(simulated[row]), bool(own[row])), rows


def _whole_groups(ranks: IntArray, micro_batches: IntArray, interleaved: BoolArray) -> IntArray:
    """Interleaving runs in groups of P micro batches; a launcher accepts no other count, so a rest is rounded up."""
    rounded: IntArray = np.where(interleaved, -(-micro_batches // ranks) * ranks, micro_batches)
    return rounded


def _simulate_group(
    shape: _Shape, rows: IntArray, times: StageTimes, micro_batches: IntArray, post_validation: bool
) -> FloatArray:
    graph = graph_of(shape.schedule, shape.ranks, shape.chunks, shape.micro_batches)
    step = max(1, _MAX_ELEMENTS // (graph.window * shape.ranks))
    parts = [
        _run(shape, graph, times.take(rows[start : start + step]), micro_batches[start : start + step], post_validation)
        for start in range(0, len(rows), step)
    ]
    return np.concatenate(parts)


def _run(
    shape: _Shape,
    graph: Graph,
    times: StageTimes,
    micro_batches: IntArray,
    post_validation: bool,
) -> FloatArray:
    forward = _by_stage(times.forward, shape)
    backward = _by_stage(times.backward_input, shape)
    weight = _by_stage(times.backward_weight, shape)
    if not splits_backward(shape.schedule):
        backward, weight = backward + weight, np.zeros_like(weight)
    late = max(shape.micro_batches - 2 * shape.ranks, shape.ranks)
    finished = graph.first_stage_backward[[late - shape.ranks, min(late, shape.micro_batches - 1)]]
    starts = graph.predecessors.diagonal()  # rank i starts on level i, with the first micro batch
    watched = np.append(finished, starts) if post_validation else finished
    results, free = longest_path(graph, np.concatenate([forward, backward]), weight, times.hop, watched)
    end: FloatArray = (free - results[2:] if post_validation else free).max(axis=0)
    beyond = np.maximum(micro_batches - shape.micro_batches, 0)
    slope = (results[1] - results[0]) / shape.ranks
    extended: FloatArray = end + beyond * np.maximum(slope, times.total().max(axis=1))
    return extended


def _by_stage(values: FloatArray, shape: _Shape) -> FloatArray:
    """Give rows the schedule's number of chunks, shape (ranks·chunks, rows)."""
    chosen = values[:, : shape.ranks]
    if shape.chunks == 1:
        chosen = _over_chunks(chosen)[:, :, None]
    elif not shape.is_own_chunks:
        chosen = np.repeat(_over_chunks(chosen)[:, :, None] / shape.chunks, shape.chunks, axis=2)
    return np.ascontiguousarray(chosen[:, :, : shape.chunks].reshape(len(values), -1).T)


def longest_path(
    graph: Graph, durations: FloatArray, weight: FloatArray, hop: FloatArray, watched: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Run the graph: returns when the results of `watched` operations have arrived, and each rank's end, (P, rows).

    `durations` has shape (2·P·V, rows), `weight` (P·V, rows), `hop` (rows,). Only as many results are kept as are
    still needed, which is most of the speed.
    """
    levels, ranks = graph.predecessors.shape
    durations = np.concatenate([durations, np.zeros((1, len(hop)))])
    behind = graph.weight_counts @ weight if len(graph.weight_counts) > 1 else None
    ready = np.zeros((1 + graph.window * ranks, len(hop)))
    seen = np.zeros((len(watched), len(hop)))
    looked_at = _by_level(watched, ranks)
    free, gathered = np.zeros((ranks, len(hop))), np.empty((ranks, len(hop)))
    for level in range(levels):
        first = 1 + level % graph.window * ranks
        # `mode` spares a copy of `out`
        np.maximum(free, ready.take(graph.predecessors_in_window[level], axis=0, out=gathered, mode="clip"), out=free)
        free += durations.take(graph.durations[level], axis=0, out=gathered, mode="clip")
        np.add(free, hop, out=ready[first : first + ranks])
        for number, rank in looked_at.get(level, ()):
            seen[number] = ready[first + rank]
        if behind is not None:
            free += behind.take(graph.weights[level], axis=0, out=gathered, mode="clip")
    return seen, free


def _by_level(watched: IntArray, ranks: int) -> dict[int, list[tuple[int, int]]]:
    """Return place in `watched` and rank of each operation, by level; the start of the step is on none."""
    found: dict[int, list[tuple[int, int]]] = {}
    for number, operation in enumerate(watched.tolist()):
        if operation:
            level, rank = divmod(operation - 1, ranks)
            found.setdefault(level, []).append((number, rank))
    return found
