"""The event simulation: dependencies, transfers, uneven stages, and the extension beyond what is simulated."""

import numpy as np
import pytest

from tests.unit.performance.builders import a_batch
from tunewright.domain.training_config import PIPELINE_SCHEDULES, V_SHAPED_SCHEDULES, PipelineSchedule
from tunewright.performance.pipeline import simulate
from tunewright.performance.pipeline.simulate import StageTimes, pipeline_seconds

ROWS = 12


def seconds_of(
    schedule: PipelineSchedule, ranks: int, chunks: int, times: StageTimes, micro_batches: int
) -> np.ndarray:
    change = {
        "pipeline_parallel_size": ranks,
        "virtual_pipeline_parallel_size": chunks,
        "pipeline_schedule": schedule,
    }
    rows = len(times.hop)
    return pipeline_seconds(a_batch(*[change] * rows), times, np.full(rows, micro_batches))


def chunks_of(schedule: PipelineSchedule) -> int:
    return 3 if schedule == "interleaved-1f1b" else 2 if schedule in V_SHAPED_SCHEDULES else 1


def uneven(schedule: PipelineSchedule, ranks: int, *, spread: float, seed: int) -> StageTimes:
    """Equal layers, a head as heavy as `spread` layers where the schedule has it, transfers of up to 0.2."""
    generator = np.random.default_rng(seed)
    chunks = chunks_of(schedule)
    parts = [np.ones((ROWS, ranks, chunks)) * generator.uniform(0.7, 1.3, (ROWS, 1, 1)) for _ in range(3)]
    for part in parts:
        part[:, 0 if schedule in V_SHAPED_SCHEDULES else -1, -1] += spread * generator.random(ROWS)
        part[:, 0, 0] += 0.05
    return StageTimes(parts[0], parts[1], parts[2], 0.2 * generator.random(ROWS))


def test_one_rank_works_without_waiting() -> None:
    one = np.ones((1, 1, 1))
    times = StageTimes(one, 1.5 * one, 0.5 * one, np.ones(1))
    assert seconds_of("1f1b", 1, 1, times, 7)[0] == pytest.approx(7 * 3.0)


def test_two_stages_by_hand() -> None:
    forward, backward = np.array([[[1.0], [2.0]]]), np.array([[[1.0], [3.0]]])
    times = StageTimes(forward, backward, np.zeros_like(forward), hop=np.array([0.5]))
    # F0 on rank 0 ends at 1, arrives at 1.5; rank 1 works to 6.5 and 11.5 on both; the last gradient arrives at 12.
    assert seconds_of("1f1b", 2, 1, times, 2)[0] == pytest.approx(13.0)


@pytest.mark.parametrize(
    ("schedule", "hops_each_way"), [("1f1b", 3), ("zero-bubble-h1", 3), ("zero-bubble-v", 6), ("v-half", 6)]
)
def test_one_micro_batch_is_lengthened_by_each_hop_and_the_turn_of_a_v_costs_none(
    schedule: PipelineSchedule, hops_each_way: int
) -> None:
    ones, hop = np.ones((1, 4, chunks_of(schedule))), np.full(1, 0.25)
    without = seconds_of(schedule, 4, chunks_of(schedule), StageTimes(ones, ones, ones, 0 * hop), 1)
    with_hops = seconds_of(schedule, 4, chunks_of(schedule), StageTimes(ones, ones, ones, hop), 1)
    assert with_hops - without == pytest.approx(2 * hops_each_way * 0.25)


@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize("schedule", PIPELINE_SCHEDULES)
def test_the_extension_equals_the_full_simulation(
    schedule: PipelineSchedule, ranks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = uneven(schedule, ranks, spread=1.0, seed=ranks)
    micro_batches = 13 * ranks
    extended = seconds_of(schedule, ranks, chunks_of(schedule), times, micro_batches)
    monkeypatch.setattr(simulate, "PERIODS_SIMULATED", dict.fromkeys(PIPELINE_SCHEDULES, 100))
    full = seconds_of(schedule, ranks, chunks_of(schedule), times, micro_batches)
    # V-half and V-min have patterns that repeat over several micro batches.
    tolerance = 1e-3 if schedule in ("v-half", "v-min") else 1e-9
    np.testing.assert_allclose(extended, full, rtol=tolerance)


@pytest.mark.parametrize("schedule", PIPELINE_SCHEDULES)
def test_the_extension_is_close_when_every_stage_differs(
    schedule: PipelineSchedule, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = np.random.default_rng(7)
    shape = (ROWS, 8, chunks_of(schedule))
    parts = 1 + 0.5 * generator.random((3, *shape))
    times = StageTimes(parts[0], parts[1], parts[2], 0.2 * generator.random(ROWS))
    extended = seconds_of(schedule, 8, shape[2], times, 104)
    monkeypatch.setattr(simulate, "PERIODS_SIMULATED", dict.fromkeys(PIPELINE_SCHEDULES, 100))
    np.testing.assert_allclose(extended, seconds_of(schedule, 8, shape[2], times, 104), rtol=0.03)


@pytest.mark.parametrize("schedule", PIPELINE_SCHEDULES)
def test_the_busiest_rank_bounds_the_duration_from_below(schedule: PipelineSchedule) -> None:
    times = uneven(schedule, 4, spread=2.0, seed=3)
    for micro_batches in (4, 8, 100):
        seconds = seconds_of(schedule, 4, chunks_of(schedule), times, micro_batches)
        assert (seconds >= micro_batches * times.total().max(axis=1) * (1 - 1e-12)).all()


def test_rows_of_many_shapes_are_put_back_in_their_order() -> None:
    changes = [
        {"pipeline_parallel_size": ranks, "pipeline_schedule": schedule}
        for ranks in (4, 1, 2)
        for schedule in ("zero-bubble-h1", "1f1b")
    ]
    ones = np.ones((len(changes), 4, 1))
    ones[1] *= 3.0
    times = StageTimes(ones, ones, ones, np.zeros(len(changes)))
    micro_batches = np.array([8, 8, 8, 8, 40, 40])
    together = pipeline_seconds(a_batch(*changes), times, micro_batches)
    for row, change in enumerate(changes):
        alone = StageTimes(ones[row : row + 1], ones[row : row + 1], ones[row : row + 1], np.zeros(1))
        assert together[row] == pipeline_seconds(a_batch(change), alone, micro_batches[row : row + 1])[0]
