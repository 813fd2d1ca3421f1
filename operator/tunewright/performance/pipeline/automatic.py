"""Zero-bubble orders made for given times, as the scheduler of the zero-bubble paper's own runner makes them.

Called by `step_parts` for software that has such a scheduler; launchers of a search run the fixed orders of
`domain/schedule`. Qi et al. 2024 (arXiv 2401.10241, section 3) give the rules that are followed here: forward passes
until the first backward pass can start, as many as a limit of micro batches in flight allows (P for ZB-1p, 2P for
ZB-2p); then one forward and one backward pass in turn; weight gradients in the gaps, and where the limit is reached.
"""

import heapq
from collections.abc import Mapping

import numpy as np

from tunewright.domain.config_batch import ConfigBatch, FloatArray, IntArray
from tunewright.domain.training_config import PipelineSchedule
from tunewright.performance.pipeline.simulate import PERIODS_SIMULATED, StageTimes

_LIMITS: Mapping[PipelineSchedule, int] = {"zero-bubble-h1": 1, "zero-bubble-h2": 2}
"""Micro batches in flight on every rank, in units of P."""

_LEAST_GAP = 0.5
"""Share of a weight gradient's time that a gap must have: less delays the pass behind it by more than it fills."""

_NEVER = float("inf")


def with_automatic_orders(
    batch: ConfigBatch, times: StageTimes, num_micro_batches: IntArray, seconds: FloatArray
) -> FloatArray:
    """Return the pipeline seconds of every row, with post-validation; `seconds` where a schedule has a fixed order."""
    found = seconds.copy()
    for schedule, limit in _LIMITS.items():
        chosen = batch.is_("pipeline_schedule", schedule) & (batch.pipeline_parallel_size > 1)
        for row in np.flatnonzero(chosen):
            ranks, micro_batches = int(batch.pipeline_parallel_size[row]), int(num_micro_batches[row])
            simulated = min(micro_batches, PERIODS_SIMULATED[schedule] * ranks)
            line = _Line(times, int(row), ranks, simulated, limit * ranks)
            found[row] = line.run() + (micro_batches - simulated) * times.total()[row].max()
    return found


class _Line:
    """The ranks of one pipeline; decides for each, whenever something changes for it, what it does next."""

    def __init__(self, times: StageTimes, row: int, ranks: int, micro_batches: int, limit: int) -> None:
        self._forward, self._backward, self._weight = (
            part[row, :ranks].sum(axis=1).tolist()
            for part in (times.forward, times.backward_input, times.backward_weight)
        )
        self._hop = float(times.hop[row])
        self._last, self._micro_batches, self._limit = ranks - 1, micro_batches, limit
        self._forward_ends: list[list[float]] = [[] for _ in range(ranks)]
        self._backward_ends: list[list[float]] = [[] for _ in range(ranks)]
        self._weights = [0] * ranks
        self._turn_of_backward = [True] * ranks
        self._begin, self._free = [_NEVER] * ranks, [0.0] * ranks
        self._changes = [(0.0, 0)]

    def run(self) -> float:
        """Return the longest time from a rank's first start to its own last end, in seconds."""
        while self._changes:
            now, rank = heapq.heappop(self._changes)
            if now >= self._free[rank]:
                self._decide(rank, now)
        return max(end - begin for begin, end in zip(self._begin, self._free, strict=True))

    def _decide(self, rank: int, now: float) -> None:
        forward, backward = self._forward_arrival(rank, now), self._backward_arrival(rank)
        may_forward = forward <= now and not (self._turn_of_backward[rank] and self._backward_ends[rank])
        if backward <= now and not (may_forward and self._backward_ends[rank]):
            self._do(rank, now, self._backward[rank], self._backward_ends)
            self._turn_of_backward[rank] = False
        elif may_forward and (self._backward_ends[rank] or backward - now >= self._forward[rank]):
            self._do(rank, now, self._forward[rank], self._forward_ends)
            self._turn_of_backward[rank] = True
        elif self._weights[rank] < len(self._backward_ends[rank]):
            gap = (backward if forward <= now else min(forward, backward)) - now
            if gap >= _LEAST_GAP * self._weight[rank]:
                self._weights[rank] += 1
                self._occupy(rank, now + self._weight[rank])

    def _forward_arrival(self, rank: int, now: float) -> float:
        """Return when the next forward pass can start; never where none is left or the limit is reached."""
        done = len(self._forward_ends[rank])
        if done == self._micro_batches or done - self._weights[rank] >= self._limit:
            return _NEVER
        return now if rank == 0 else self._arrival(self._forward_ends[rank - 1], done)

    def _backward_arrival(self, rank: int) -> float:
        done = len(self._backward_ends[rank])
        if rank < self._last:
            return self._arrival(self._backward_ends[rank + 1], done)
        return self._forward_ends[rank][done] if done < len(self._forward_ends[rank]) else _NEVER

    def _arrival(self, ends: list[float], micro_batch: int) -> float:
        return ends[micro_batch] + self._hop if micro_batch < len(ends) else _NEVER

    def _do(self, rank: int, now: float, duration: float, ends: list[list[float]]) -> None:
        """Run a pass and wake the rank that waits for it."""
        self._begin[rank] = min(self._begin[rank], now)
        end = now + duration
        ends[rank].append(end)
        self._occupy(rank, end)
        receiver = rank + 1 if ends is self._forward_ends else rank - 1
        if 0 <= receiver <= self._last:
            heapq.heappush(self._changes, (end + self._hop, receiver))

    def _occupy(self, rank: int, until: float) -> None:
        self._free[rank] = until
        heapq.heappush(self._changes, (until, rank))
