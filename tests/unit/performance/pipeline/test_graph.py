"""The compiled graph against a plain execution of the same order, one operation at a time."""

from collections.abc import Iterator

import numpy as np
import pytest

from tunewright.domain.pipeline_layout import virtual_stage
from tunewright.domain.schedule.operation import BACKWARD, FORWARD, WEIGHT, Operation
from tunewright.domain.schedule.orders import rank_orders, splits_backward
from tunewright.domain.training_config import PIPELINE_SCHEDULES, V_SHAPED_SCHEDULES, PipelineSchedule
from tunewright.performance.pipeline.graph import graph_of
from tunewright.performance.pipeline.simulate import longest_path


def chunks_of(schedule: PipelineSchedule) -> int:
    return 3 if schedule == "interleaved-1f1b" else 2 if schedule in V_SHAPED_SCHEDULES else 1


class Plain:
    """Runs each rank's order as far as what it needs is done, until all is done."""

    hop = 0.3

    def __init__(self, schedule: PipelineSchedule, ranks: int, micro_batches: int, seconds: np.ndarray) -> None:
        self.chunks, self.ranks, self.seconds = chunks_of(schedule), ranks, seconds
        self.v_shaped = schedule in V_SHAPED_SCHEDULES
        self.orders = rank_orders(schedule, ranks, self.chunks, micro_batches)
        self.ends: dict[tuple[int, int, int], tuple[float, int]] = {}

    def run(self) -> list[float]:
        waiting, free = [list(order) for order in self.orders], [0.0] * self.ranks
        while any(waiting):
            for rank, order in enumerate(waiting):
                while order and (arrivals := self.arrivals(rank, order[0])) is not None:
                    kind, chunk, micro_batch = order.pop(0)
                    free[rank] = max([free[rank], *arrivals]) + self.seconds[kind, rank, chunk]
                    if kind != WEIGHT:
                        self.ends[kind, self.stage(rank, chunk), micro_batch] = (free[rank], rank)
        return free

    def arrivals(self, rank: int, operation: Operation) -> list[float] | None:
        found = [self.ends.get(needed) for needed in self.needed(rank, operation)]
        if any(end is None for end in found):
            return None
        return [end[0] + self.hop * (end[1] != rank) for end in found if end is not None]

    def needed(self, rank: int, operation: Operation) -> Iterator[tuple[int, int, int]]:
        kind, chunk, micro_batch = operation
        stage = self.stage(rank, chunk)
        if kind == FORWARD and stage > 0:
            yield FORWARD, stage - 1, micro_batch
        if kind == BACKWARD:
            yield FORWARD, stage, micro_batch
            if stage < self.ranks * self.chunks - 1:
                yield BACKWARD, stage + 1, micro_batch
        if kind == WEIGHT:
            yield BACKWARD, stage, micro_batch

    def stage(self, rank: int, chunk: int) -> int:
        return virtual_stage(rank, chunk, self.ranks, self.v_shaped)


@pytest.mark.parametrize(("ranks", "micro_batches"), [(2, 2), (3, 6), (4, 12), (5, 10)])
@pytest.mark.parametrize("schedule", PIPELINE_SCHEDULES)
def test_ranks_end_when_a_plain_execution_ends_them(schedule: PipelineSchedule, ranks: int, micro_batches: int) -> None:
    chunks = chunks_of(schedule)
    seconds = np.random.default_rng(ranks).random((3, ranks, chunks))
    if not splits_backward(schedule):
        seconds[WEIGHT] = 0.0
    plain = Plain(schedule, ranks, micro_batches, seconds)
    places = seconds.reshape(3, -1, 1)
    graph = graph_of(schedule, ranks, chunks, micro_batches)
    durations, hop = np.concatenate(places[[FORWARD, BACKWARD]]), np.array([Plain.hop])
    _, ends = longest_path(graph, durations, places[WEIGHT], hop, watched=np.array([], dtype=np.int64))
    np.testing.assert_allclose(ends[:, 0], plain.run(), rtol=1e-12)
