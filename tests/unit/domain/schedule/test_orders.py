"""The order of operations on each rank: complete, executable, and no more in flight than the schedule promises."""

from collections import Counter

import pytest

from tunewright.domain.schedule.operation import BACKWARD, FORWARD, WEIGHT, Operation
from tunewright.domain.schedule.orders import rank_orders, splits_backward
from tunewright.domain.schedule.v_shaped import PERIOD, V_HALF_HOPS, V_MIN_HOPS, building_block
from tunewright.domain.training_config import PIPELINE_SCHEDULES, PipelineSchedule
from tunewright.performance.pipeline.graph import graph_of

CHUNKS: dict[PipelineSchedule, int] = {"interleaved-1f1b": 3, "zero-bubble-v": 2, "v-half": 2, "v-min": 2}


def peak(order: tuple[Operation, ...], *, releases: int) -> int:
    held = highest = 0
    for kind, _, _ in order:
        held += (kind == FORWARD) - (kind == releases)
        highest = max(highest, held)
    return highest


@pytest.mark.parametrize("ranks", [2, 3, 4, 5, 8])
@pytest.mark.parametrize("schedule", PIPELINE_SCHEDULES)
def test_every_operation_runs_once_and_in_an_order_that_does_not_wait_for_itself(
    schedule: PipelineSchedule, ranks: int
) -> None:
    chunks = CHUNKS.get(schedule, 1)
    kinds = (FORWARD, BACKWARD, WEIGHT) if splits_backward(schedule) else (FORWARD, BACKWARD)
    for micro_batches in (ranks, 2 * ranks, 5 * ranks):
        wanted = {(kind, chunk, index) for kind in kinds for chunk in range(chunks) for index in range(micro_batches)}
        for order in rank_orders(schedule, ranks, chunks, micro_batches):
            assert Counter(order) == Counter(wanted)
            position = {step: place for place, step in enumerate(order)}
            assert all(position[FORWARD, chunk, index] < position[BACKWARD, chunk, index] for _, chunk, index in wanted)
        graph = graph_of(schedule, ranks, chunks, micro_batches)
        assert graph.num_operations == 2 * ranks * chunks * micro_batches


@pytest.mark.parametrize("schedule", ["1f1b", "zero-bubble-h1", "zero-bubble-h2", "zero-bubble-v", "v-half", "v-min"])
def test_fewer_micro_batches_than_ranks_still_run(schedule: PipelineSchedule) -> None:
    for micro_batches in range(1, 8):
        assert graph_of(schedule, 8, CHUNKS.get(schedule, 1), micro_batches).num_operations > 0


def test_one_forward_one_backward_holds_one_micro_batch_less_on_each_later_rank() -> None:
    assert [peak(order, releases=BACKWARD) for order in rank_orders("1f1b", 8, 1, 32)] == [8, 7, 6, 5, 4, 3, 2, 1]


def test_interleaving_holds_what_narayanan_2021_says_on_the_first_rank() -> None:
    ranks, chunks = 8, 4
    first = rank_orders("interleaved-1f1b", ranks, chunks, 32)[0]
    assert peak(first, releases=BACKWARD) == 2 * (ranks - 1) + (chunks - 1) * ranks + 1


@pytest.mark.parametrize(("schedule", "limit"), [("zero-bubble-h1", 8), ("zero-bubble-h2", 15)])
def test_split_schedules_peak_alike_on_every_rank_when_the_weight_gradient_needs_all(
    schedule: PipelineSchedule, limit: int
) -> None:
    orders = rank_orders(schedule, 8, 1, 64)
    assert {peak(order, releases=WEIGHT) for order in orders} == {limit}


@pytest.mark.parametrize("ranks", [2, 4, 6, 8, 16])
def test_v_shaped_schedules_stay_within_their_memory(ranks: int) -> None:
    limits: dict[PipelineSchedule, int] = {
        "zero-bubble-v": ranks,
        "v-half": (ranks + 2) // 2,
        "v-min": (ranks + 4) // 3,
    }
    for schedule, limit in limits.items():
        highest = max(peak(order, releases=WEIGHT) for order in rank_orders(schedule, ranks, 2, 6 * ranks))
        assert highest <= 2 * limit, schedule


@pytest.mark.parametrize("ranks", [*range(2, 14), 16, 31, 64])
@pytest.mark.parametrize("hops", [V_HALF_HOPS, V_MIN_HOPS])
def test_a_building_block_repeats_without_collisions(ranks: int, hops: tuple[int, int, int, int]) -> None:
    for slots in building_block(ranks, hops):
        assert len({slot % PERIOD for slot in slots}) == 4
