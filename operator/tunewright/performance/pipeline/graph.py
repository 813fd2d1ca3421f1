"""An order compiled into levels: the form in which `simulate` runs it for many rows at once.

A level holds operations that depend only on earlier levels, at most one a rank. Weight gradients never wait (their
input gradient is earlier on the same rank), so they are not operations here: they lengthen the occupation of the rank
after the operation that they follow.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tunewright.domain.config_batch import IntArray
from tunewright.domain.pipeline_layout import virtual_stage
from tunewright.domain.schedule.operation import BACKWARD, FORWARD, WEIGHT, Operation, RankOrders
from tunewright.domain.schedule.orders import rank_orders
from tunewright.domain.training_config import V_SHAPED_SCHEDULES, PipelineSchedule


@dataclass(frozen=True, eq=False)
class Level:
    """Operations that run side by side; all arrays have one entry an operation."""

    ranks: IntArray
    predecessors: IntArray
    """Index of the operation whose result is needed; the sentinel `num_operations` where there is none."""
    durations: IntArray
    """Index into the stacked durations: rank·V + chunk for forward, P·V + rank·V + chunk for backward."""
    weights: NDArray[np.float64] | None
    """Weight gradients done right after, per operation and chunk, shape (operations, V); None where there are none."""


@dataclass(frozen=True, eq=False)
class Graph:
    """Levels in order; operations are numbered consecutively over them."""

    levels: tuple[Level, ...]
    num_ranks: int
    num_operations: int
    first_stage_backward: IntArray
    """Operation that ends each micro batch: the backward pass of the first stage."""
    crosses_ranks: NDArray[np.bool_]
    """Whether the result of duration index d goes to another rank, shape (2·P·V,)."""


@lru_cache(maxsize=1024)
def graph_of(schedule: PipelineSchedule, ranks: int, chunks: int, micro_batches: int) -> Graph:
    """Compile the order of a schedule; the arguments are those of `rank_orders`."""
    orders = rank_orders(schedule, ranks, chunks, micro_batches)
    return _Compiler(orders, chunks, micro_batches, schedule in V_SHAPED_SCHEDULES).graph()


@dataclass
class _Step:
    rank: int
    kind: int
    chunk: int
    micro_batch: int
    weights: list[int] | None


class _Compiler:
    def __init__(self, orders: RankOrders, chunks: int, micro_batches: int, v_shaped: bool) -> None:
        self._chunks = chunks
        self._micro_batches = micro_batches
        self._num_stages = len(orders) * chunks
        self._stage = [
            [virtual_stage(rank, chunk, len(orders), v_shaped) for chunk in range(chunks)]
            for rank in range(len(orders))
        ]
        self._lines = [_with_weights(rank, order, chunks) for rank, order in enumerate(orders)]
        self._number: dict[int, int] = {}

    def graph(self) -> Graph:
        total = sum(len(line) for line in self._lines)
        positions = [0] * len(self._lines)
        levels: list[Level] = []
        while len(self._number) < total:
            ready = [
                (line[position], predecessor)
                for line, position in zip(self._lines, positions, strict=True)
                if position < len(line) and (predecessor := self._predecessor(line[position], total)) >= 0
            ]
            for step, _ in ready:
                self._number[self._key(step.kind, self._stage[step.rank][step.chunk], step.micro_batch)] = len(
                    self._number
                )
                positions[step.rank] += 1
            levels.append(self._level(ready))
        ends = [self._number[self._key(BACKWARD, 0, index)] for index in range(self._micro_batches)]
        return Graph(tuple(levels), len(self._lines), total, np.array(ends, dtype=np.int64), self._crossings())

    def _key(self, kind: int, stage: int, micro_batch: int) -> int:
        return (kind * self._num_stages + stage) * self._micro_batches + micro_batch

    def _predecessor(self, step: _Step, sentinel: int) -> int:
        """Number of the needed operation, `sentinel` where none is needed, -1 while it is not done."""
        stage = self._stage[step.rank][step.chunk]
        if step.kind == FORWARD:
            if stage == 0:
                return sentinel
            return self._number.get(self._key(FORWARD, stage - 1, step.micro_batch), -1)
        if stage == self._num_stages - 1:
            return self._number.get(self._key(FORWARD, stage, step.micro_batch), -1)
        return self._number.get(self._key(BACKWARD, stage + 1, step.micro_batch), -1)

    def _level(self, ready: list[tuple[_Step, int]]) -> Level:
        if not ready:
            raise ValueError("the order of this schedule waits for itself")
        weights = None
        if any(step.weights for step, _ in ready):
            weights = np.array([step.weights or [0] * self._chunks for step, _ in ready], dtype=np.float64)
        return Level(
            ranks=np.array([step.rank for step, _ in ready], dtype=np.int64),
            predecessors=np.array([predecessor for _, predecessor in ready], dtype=np.int64),
            durations=np.array(
                [step.kind * self._num_stages + step.rank * self._chunks + step.chunk for step, _ in ready],
                dtype=np.int64,
            ),
            weights=weights,
        )

    def _crossings(self) -> NDArray[np.bool_]:
        rank_of = {stage: rank for rank, stages in enumerate(self._stage) for stage in stages}
        stages = [stage for per_rank in self._stage for stage in per_rank]
        forward = [stage + 1 in rank_of and rank_of[stage + 1] != rank_of[stage] for stage in stages]
        backward = [stage > 0 and rank_of[stage - 1] != rank_of[stage] for stage in stages]
        return np.array(forward + backward, dtype=bool)


def _with_weights(rank: int, order: tuple[Operation, ...], chunks: int) -> list[_Step]:
    """Fold each weight gradient into the forward or backward pass that it follows."""
    line: list[_Step] = []
    for kind, chunk, micro_batch in order:
        if kind != WEIGHT:
            line.append(_Step(rank, kind, chunk, micro_batch, None))
            continue
        weights = line[-1].weights or [0] * chunks
        weights[chunk] += 1
        line[-1].weights = weights
    return line
