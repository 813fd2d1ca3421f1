"""An order compiled into levels: the form in which `simulate` runs it for many rows at once.

A level gives each rank one operation that needs only earlier levels, or nothing to do. Weight gradients never wait
(their input gradient is earlier on the same rank), so they are not operations here: they lengthen the occupation of
the rank after the operation that they follow.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain

import numpy as np

from tunewright.domain.config_batch import BoolArray, FloatArray, IntArray
from tunewright.domain.pipeline_layout import virtual_stage
from tunewright.domain.schedule.operation import FORWARD, WEIGHT, RankOrders
from tunewright.domain.schedule.orders import rank_orders
from tunewright.domain.training_config import V_SHAPED_SCHEDULES, PipelineSchedule


@dataclass(frozen=True, eq=False)
class Graph:
    """Index arrays of shape (levels, P). Operations are numbered 1 + level·P + rank; 0 stands for the step's start."""

    predecessors: IntArray
    """Operation of another rank that has to be over; 0 where the rank's own order is enough."""
    durations: IntArray
    """Index into the stacked durations: rank·V + chunk for forward, P·V more for backward, 2·P·V for nothing to do."""
    weights: IntArray
    """Row of `weight_counts`: the weight gradients done right after."""
    weight_counts: FloatArray
    """Weight gradients of each rank and chunk, shape (kinds, P·V); row 0 has none."""
    num_operations: int
    first_stage_backward: IntArray
    """Operation that ends each micro batch: the backward pass of the first stage."""

    @cached_property
    def window(self) -> int:
        """Levels for which a result is needed at most: 2 to 2P, however long the schedule is."""
        waits = np.arange(len(self.predecessors))[:, None] - (self.predecessors - 1) // self.predecessors.shape[1]
        return int(waits[self.predecessors > 0].max(initial=1))

    @cached_property
    def predecessors_in_window(self) -> IntArray:
        """`predecessors` where only the last `window` levels are kept, each in place of the one that far before."""
        size = self.window * self.predecessors.shape[1]
        return np.where(self.predecessors > 0, 1 + (self.predecessors - 1) % size, 0)


@lru_cache(maxsize=1024)
def graph_of(schedule: PipelineSchedule, ranks: int, chunks: int, micro_batches: int) -> Graph:
    """Compile the order of a schedule; the arguments are those of `rank_orders`."""
    orders = rank_orders(schedule, ranks, chunks, micro_batches)
    passes = _Passes.of(orders, chunks, micro_batches, schedule in V_SHAPED_SCHEDULES)
    placed, predecessors, numbers = _levels(passes)
    kinds, weights = _weight_kinds(passes)
    places = ranks * chunks
    first_backward = places * micro_batches
    return Graph(
        predecessors=predecessors,
        durations=np.append(passes.durations, 2 * places)[placed],
        weights=np.append(weights, 0)[placed],
        weight_counts=np.array([[kind.count(place) for place in range(places)] for kind in kinds], dtype=np.float64),
        num_operations=len(passes.keys),
        first_stage_backward=numbers[first_backward : first_backward + micro_batches],
    )


@dataclass(frozen=True, eq=False)
class _Passes:
    """Forward and backward passes, rank by rank in their order.

    A key says what a pass does: (kind · P·V + virtual stage) · M + micro batch.
    """

    bounds: list[int]
    """Where the passes of each rank begin, and where the last one's end."""
    keys: IntArray
    needs: IntArray
    """Key of the pass of another rank that has to be over; the number of passes where there is none."""
    durations: IntArray
    weights: Mapping[int, tuple[int, ...]]
    """Chunks, as rank·V + chunk, whose weight gradients follow a pass."""

    @classmethod
    def of(cls, orders: RankOrders, chunks: int, micro_batches: int, v_shaped: bool) -> "_Passes":
        """Look up what every pass needs. What is on the same rank is earlier in its order, and so over."""
        ranks, places = len(orders), len(orders) * chunks
        rank = np.repeat(np.arange(ranks), [len(order) for order in orders])
        numbers = chain.from_iterable(chain.from_iterable(orders))
        kind, chunk, micro_batch = np.fromiter(numbers, dtype=np.int64).reshape(-1, 3).T
        place, is_pass = rank * chunks + chunk, kind != WEIGHT
        weights = _weights_by_pass(place, is_pass)
        rank, kind, place, micro_batch = (column[is_pass] for column in (rank, kind, place, micro_batch))
        stages = np.array([virtual_stage(*divmod(at, chunks), ranks, v_shaped) for at in range(places)])
        rank_of = np.full(places + 2, -1)  # with a stage before the first and one behind the last
        rank_of[stages + 1] = np.arange(places) // chunks
        stage = stages[place]
        before = np.where(kind == FORWARD, stage - 1, stage + 1)
        elsewhere = (rank_of[before + 1] >= 0) & (rank_of[before + 1] != rank)
        return cls(
            bounds=np.searchsorted(rank, np.arange(ranks + 1)).tolist(),
            keys=(kind * places + stage) * micro_batches + micro_batch,
            needs=np.where(elsewhere, (kind * places + before) * micro_batches + micro_batch, len(kind)),
            durations=kind * places + place,
            weights=weights,
        )


def _weights_by_pass(place: IntArray, is_pass: BoolArray) -> dict[int, tuple[int, ...]]:
    follows = (np.cumsum(is_pass) - 1)[~is_pass]
    weights: dict[int, tuple[int, ...]] = {}
    for index, chunk in zip(follows.tolist(), place[~is_pass].tolist(), strict=True):
        weights[index] = (*weights.get(index, ()), chunk)
    return weights


def _weight_kinds(passes: _Passes) -> tuple[list[tuple[int, ...]], IntArray]:
    """Return the distinct groups of weight gradients, beginning with none, and the one that follows each pass."""
    kinds = list(dict.fromkeys([(), *passes.weights.values()]))
    code = {kind: number for number, kind in enumerate(kinds)}
    codes = np.zeros(len(passes.keys), dtype=np.int64)
    codes[list(passes.weights)] = [code[kind] for kind in passes.weights.values()]
    return kinds, codes


def _levels(passes: _Passes) -> tuple[IntArray, IntArray, IntArray]:
    """Run the order with equal times.

    Returns the pass of every level and rank (the number of passes where it has nothing to do), what it waits for, both
    of shape (levels, P), and the number of the operation of every key.
    """
    count, ranks = len(passes.keys), len(passes.bounds) - 1
    level = np.array(_level_of_each(passes)) - 1
    rank = np.repeat(np.arange(ranks), np.diff(passes.bounds))
    numbers = np.zeros(count + 1, dtype=np.int64)
    numbers[passes.keys] = 1 + level * ranks + rank
    placed = np.full((int(level.max()) + 1, ranks), count)
    placed[level, rank] = np.arange(count)
    predecessors = np.zeros_like(placed)
    predecessors[level, rank] = numbers[passes.needs]
    return placed, predecessors, numbers


def _level_of_each(passes: _Passes) -> list[int]:
    """Return the level of every pass, from one on: behind the pass before it on its rank, and behind what it needs.

    A rank goes on until it needs a pass that is not over; that pass wakes it.
    """
    keys, needs = passes.keys.tolist(), passes.needs.tolist()
    cursors, ends = passes.bounds[:-1], passes.bounds[1:]
    levels, latest = [0] * len(keys), [0] * len(ends)
    done = [-1] * len(keys) + [0]
    sleeping: dict[int, int] = {}
    awake = list(range(len(ends)))
    while awake:
        rank = awake.pop()
        cursor, end, level = cursors[rank], ends[rank], latest[rank]
        while cursor < end:
            needed = done[needs[cursor]]
            if needed < 0:
                sleeping[needs[cursor]] = rank
                break
            level = (level if level > needed else needed) + 1
            key = keys[cursor]
            levels[cursor] = done[key] = level
            if key in sleeping:
                awake.append(sleeping.pop(key))
            cursor += 1
        cursors[rank], latest[rank] = cursor, level
    if cursors != ends:
        raise ValueError("the order of this schedule waits for itself")
    return levels
