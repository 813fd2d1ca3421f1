"""The closed forms of micro batches in flight against the orders that the schedules really run."""

import numpy as np
import pytest

from tunewright.domain.config_batch import ConfigBatch
from tunewright.domain.schedule.operation import BACKWARD, FORWARD, WEIGHT
from tunewright.domain.schedule.orders import rank_orders, splits_backward
from tunewright.domain.training_config import PipelineSchedule, TrainingConfig
from tunewright.memory.constants import MemoryConstants
from tunewright.memory.in_flight import in_flight

SHARE = MemoryConstants().weight_gradient_share


def peaks(schedule: PipelineSchedule, ranks: int, chunks: int, micro_batches: int) -> list[float]:
    """Walk every rank's order, in micro batches of a whole rank."""
    found = []
    waits = SHARE if splits_backward(schedule) else 0.0
    change = {FORWARD: 1.0, BACKWARD: waits - 1.0, WEIGHT: -waits}
    for order in rank_orders(schedule, ranks, chunks, micro_batches):
        held = np.cumsum([change[kind] / chunks for kind, _, _ in order])
        assert held[-1] == pytest.approx(0)
        found.append(float(held.max()))
    return found


def closed(schedule: PipelineSchedule, ranks: int, chunks: int, micro_batches: int) -> list[float]:
    config = TrainingConfig(
        pipeline_parallel_size=ranks, virtual_pipeline_parallel_size=chunks, pipeline_schedule=schedule
    )
    held = in_flight(ConfigBatch.of([config]), ranks, np.array([micro_batches]), MemoryConstants())
    return [float(size) for size in held[0]]


@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize(
    ("schedule", "chunks"),
    [("1f1b", 1), ("interleaved-1f1b", 2), ("interleaved-1f1b", 4), ("zero-bubble-h1", 1), ("zero-bubble-h2", 1)],
)
def test_forms_equal_the_peak_of_every_rank(schedule: PipelineSchedule, chunks: int, ranks: int) -> None:
    for micro_batches in (4 * ranks, 8 * ranks):
        assert closed(schedule, ranks, chunks, micro_batches) == pytest.approx(
            peaks(schedule, ranks, chunks, micro_batches)
        )


@pytest.mark.parametrize("ranks", [2, 4, 6, 8, 16])
@pytest.mark.parametrize("schedule", ["zero-bubble-v", "v-half", "v-min"])
def test_v_shapes_stay_within_a_chunk_of_their_form(schedule: PipelineSchedule, ranks: int) -> None:
    form, run = closed(schedule, ranks, 2, 8 * ranks), peaks(schedule, ranks, 2, 8 * ranks)
    assert max(run) == pytest.approx(max(form), abs=0.05)


def test_a_step_with_few_micro_batches_holds_no_more_than_those() -> None:
    for schedule in ("1f1b", "zero-bubble-h1", "zero-bubble-h2"):
        assert max(peaks(schedule, 8, 1, 3)) <= 3 + 1e-9
        assert max(closed(schedule, 8, 1, 3)) <= 3
