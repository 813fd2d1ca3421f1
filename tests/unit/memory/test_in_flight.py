import numpy as np
import pytest

from tunewright.domain.config_batch import ConfigBatch
from tunewright.domain.training_config import TrainingConfig
from tunewright.memory.constants import MemoryConstants
from tunewright.memory.in_flight import in_flight, waiting_logit_gradients


def held(schedule: str, micro_batches: int = 64, stages: int = 4, chunks: int = 1, share: float = 0.97) -> list[float]:
    config = TrainingConfig(
        pipeline_parallel_size=stages, virtual_pipeline_parallel_size=chunks, pipeline_schedule=schedule
    )
    constants = MemoryConstants(weight_gradient_share=share)
    result: list[float] = in_flight(ConfigBatch.of([config]), max(4, stages), np.array([micro_batches]), constants)[
        0
    ].tolist()
    return result


@pytest.mark.parametrize(
    ("schedule", "chunks", "expected"),
    [
        ("1f1b", 1, [4, 3, 2, 1]),
        ("interleaved-1f1b", 2, [5.5, 4.5, 3.5, 2.5]),
        ("zero-bubble-h1", 1, [4, 3.97, 3.94, 3.91]),
        ("zero-bubble-h2", 1, [7, 6.94, 6.88, 6.82]),
        ("zero-bubble-v", 2, [4, 4, 4, 4]),
        ("v-half", 2, [3, 3, 3, 3]),
        ("v-min", 2, [2, 2, 2, 2]),
    ],
)
def test_each_schedule_holds_its_closed_form(schedule: str, chunks: int, expected: list[float]) -> None:
    assert held(schedule, chunks=chunks) == pytest.approx(expected)


@pytest.mark.parametrize("schedule", ["1f1b", "interleaved-1f1b", "zero-bubble-h1", "zero-bubble-h2", "zero-bubble-v"])
def test_no_schedule_holds_more_than_the_step_has(schedule: str) -> None:
    assert max(held(schedule, micro_batches=2, chunks=2)) <= 2


def test_interleaving_raises_the_first_stage_by_the_published_factor() -> None:
    assert held("interleaved-1f1b", chunks=4)[0] == pytest.approx(4 * (1 + 3 / 16))


def test_ranks_that_do_not_exist_hold_nothing() -> None:
    assert held("zero-bubble-v", stages=2, chunks=2) == [2, 2, 0, 0]


def test_without_a_pipeline_every_schedule_holds_one() -> None:
    for schedule in ("1f1b", "zero-bubble-h1", "zero-bubble-h2", "zero-bubble-v", "v-half", "v-min"):
        assert held(schedule, stages=1) == [1, 0, 0, 0]


@pytest.mark.parametrize(
    ("schedule", "micro_batches", "expected"),
    [
        ("1f1b", 64, 0),
        ("zero-bubble-h1", 64, 3),
        ("zero-bubble-h2", 64, 6),
        ("zero-bubble-h2", 4, 3),
        ("v-half", 64, 0),
    ],
)
def test_delayed_weight_gradients_pin_earlier_logit_gradients(schedule: str, micro_batches: int, expected: int) -> None:
    batch = ConfigBatch.of([TrainingConfig(pipeline_parallel_size=4, pipeline_schedule=schedule)])
    assert waiting_logit_gradients(batch, np.array([micro_batches])).tolist() == [expected]


def test_a_published_trace_of_both_1f1b_schedules_is_explained() -> None:
    """Reserved GiB of ranks 0 and 7, AMD-AGI/Primus `tools/visualization/pp_vis/pp_data_example`, 16 micro batches.

    The plain run fixes what a micro batch takes and what stays; the interleaved one follows.
    """
    plain, interleaved = held("1f1b", 16, 8), held("interleaved-1f1b", 16, 8, 2)
    micro_batch = (104.3 - 52.2) / (plain[0] - plain[7])
    stays = 104.3 - plain[0] * micro_batch
    assert stays + interleaved[0] * micro_batch == pytest.approx(130.6, rel=0.005)
    assert stays + interleaved[7] * micro_batch == pytest.approx(78.4, rel=0.005)
