"""Events of a schedule against its order and against the duration that the same simulation gives."""

from itertools import pairwise

import numpy as np
import pytest

from tests.unit.performance.builders import a_batch
from tests.unit.performance.pipeline.test_simulate import chunks_of
from tunewright.domain.schedule.operation import BACKWARD, FORWARD, WEIGHT
from tunewright.domain.schedule.orders import rank_orders
from tunewright.domain.training_config import PIPELINE_SCHEDULES, PipelineSchedule
from tunewright.performance.pipeline.simulate import StageTimes, pipeline_seconds
from tunewright.performance.pipeline.timeline import Event, timeline

RANKS, MICRO_BATCHES, HOP = 4, 8, 0.1


def uneven_times(schedule: PipelineSchedule) -> StageTimes:
    """Every rank and chunk takes another time."""
    shape = (1, RANKS, chunks_of(schedule))
    grid = np.arange(shape[1] * shape[2], dtype=np.float64).reshape(shape)
    return StageTimes(1.0 + 0.07 * grid, 1.3 + 0.03 * grid, 0.8 + 0.05 * grid, np.array([HOP]))


def events_of(schedule: PipelineSchedule) -> list[Event]:
    return timeline(schedule, uneven_times(schedule), MICRO_BATCHES)


@pytest.mark.parametrize("schedule", PIPELINE_SCHEDULES)
def test_every_rank_does_the_operations_of_its_order(schedule: PipelineSchedule) -> None:
    events = events_of(schedule)
    orders = rank_orders(schedule, RANKS, chunks_of(schedule), MICRO_BATCHES)
    for rank, order in enumerate(orders):
        own = [event for event in events if event.rank == rank]
        assert tuple((event.kind, event.chunk, event.micro_batch) for event in own) == order
        assert all(later.start >= earlier.end - 1e-9 for earlier, later in pairwise(own))


@pytest.mark.parametrize("schedule", PIPELINE_SCHEDULES)
def test_the_last_event_ends_when_the_simulation_ends(schedule: PipelineSchedule) -> None:
    chunks = chunks_of(schedule)
    change = {
        "pipeline_parallel_size": RANKS,
        "virtual_pipeline_parallel_size": chunks,
        "pipeline_schedule": schedule,
    }
    seconds = pipeline_seconds(a_batch(change), uneven_times(schedule), np.array([MICRO_BATCHES]))
    assert max(event.end for event in events_of(schedule)) == pytest.approx(seconds[0])


def test_a_pass_starts_after_the_transfer_of_what_it_needs() -> None:
    ends = {(event.kind, event.rank, event.micro_batch): event.end for event in events_of("zero-bubble-h1")}
    for event in events_of("zero-bubble-h1"):
        if event.kind == FORWARD and event.rank > 0:
            assert event.start >= ends[FORWARD, event.rank - 1, event.micro_batch] + HOP - 1e-9
        if event.kind == BACKWARD and event.rank < RANKS - 1:
            assert event.start >= ends[BACKWARD, event.rank + 1, event.micro_batch] + HOP - 1e-9
        if event.kind == WEIGHT:
            assert event.start >= ends[BACKWARD, event.rank, event.micro_batch] - 1e-9
