"""When every operation of a schedule starts and ends, from the simulation that also gives its duration.

Called by the pictures: one configuration at a time, with all of its micro batches.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tunewright.domain.config_batch import FloatArray
from tunewright.domain.schedule.operation import BACKWARD, FORWARD, WEIGHT
from tunewright.domain.schedule.orders import rank_orders, splits_backward
from tunewright.domain.training_config import PipelineSchedule
from tunewright.performance.pipeline.graph import Graph, graph_of
from tunewright.performance.pipeline.simulate import StageTimes, longest_path


@dataclass(frozen=True)
class Event:
    """One operation on one rank; seconds from the step's start."""

    rank: int
    kind: int
    """`FORWARD`, `BACKWARD` (both gradients where the schedule does not split them) or `WEIGHT`."""
    chunk: int
    micro_batch: int
    start: float
    end: float


def timeline(schedule: PipelineSchedule, times: StageTimes, micro_batches: int) -> list[Event]:
    """Return the events of a row of one configuration, rank by rank in their order.

    `times` has one row, as many ranks as the pipeline and as many chunks as the schedule. One rank has a timeline too.
    """
    _, ranks, chunks = times.forward.shape
    graph = graph_of(schedule, ranks, chunks, micro_batches)
    forward, backward, weight = (
        part[0].reshape(-1, 1) for part in (times.forward, times.backward_input, times.backward_weight)
    )
    if not splits_backward(schedule):
        backward, weight = backward + weight, np.zeros_like(weight)
    durations = np.concatenate([forward, backward])
    every = np.arange(1 + graph.predecessors.size)
    ready, _ = longest_path(graph, durations, weight, times.hop, every)
    seconds = {FORWARD: forward, BACKWARD: backward, WEIGHT: weight}
    events = []
    for rank, order in enumerate(rank_orders(schedule, ranks, chunks, micro_batches)):
        ends = _pass_ends(graph, rank, ready[:, 0] - times.hop[0], len(durations))
        now = 0.0
        for kind, chunk, micro_batch in order:
            duration = float(seconds[kind][rank * chunks + chunk, 0])
            now = now + duration if kind == WEIGHT else next(ends)
            events.append(Event(rank, kind, chunk, micro_batch, now - duration, now))
    return events


def _pass_ends(graph: Graph, rank: int, ends: FloatArray, idle: int) -> Iterator[float]:
    """Yield the ends of a rank's forward and backward passes in their order."""
    ranks = graph.durations.shape[1]
    levels = np.flatnonzero(graph.durations[:, rank] != idle)
    yield from ends[1 + levels * ranks + rank].tolist()
