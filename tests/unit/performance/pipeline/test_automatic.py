"""Orders made for given times: never worse than the fixed ones that they stand for, and never better than the work."""

from typing import cast

import numpy as np
import pytest

from tests.unit.performance.builders import a_batch
from tunewright.domain.training_config import PipelineSchedule
from tunewright.performance.pipeline.automatic import with_automatic_orders
from tunewright.performance.pipeline.simulate import StageTimes, pipeline_seconds

RANKS = 8


def equal(forward: float, backward: float, weight: float) -> StageTimes:
    ones = np.ones((1, RANKS, 1))
    return StageTimes(forward * ones, backward * ones, weight * ones, np.zeros(1))


def both(schedule: PipelineSchedule, times: StageTimes, micro_batches: int) -> tuple[float, float]:
    """Return the seconds of the fixed order, with post-validation, and of the automatic one."""
    batch = a_batch({"pipeline_parallel_size": RANKS, "pipeline_schedule": schedule})
    count = np.array([micro_batches])
    fixed = pipeline_seconds(batch, times, count, post_validation=True)
    return float(fixed[0]), float(with_automatic_orders(batch, times, count, fixed)[0])


@pytest.mark.parametrize(("schedule", "idle"), [("zero-bubble-h1", 7.0), ("zero-bubble-h2", 0.0)])
def test_equal_times_give_the_papers_idle_time(schedule: str, idle: float) -> None:
    found = both(cast("PipelineSchedule", schedule), equal(1.0, 1.0, 1.0), 24)[1]
    assert found == pytest.approx(24 * 3.0 + idle)


@pytest.mark.parametrize("micro_batches", [16, 24, 64, 100])
def test_unequal_times_idle_less_than_under_an_order_made_for_equal_ones(micro_batches: int) -> None:
    fixed, automatic = both("zero-bubble-h2", equal(1.0, 1.2, 0.8), micro_batches)
    assert micro_batches * 3.0 - 1e-9 <= automatic < fixed


def test_the_limit_of_one_pipeline_depth_leaves_nothing_to_gain() -> None:
    fixed, automatic = both("zero-bubble-h1", equal(1.0, 1.2, 0.8), 32)
    assert automatic == pytest.approx(fixed, rel=0.01)


@pytest.mark.parametrize("schedule", ["1f1b", "zero-bubble-v"])
def test_other_schedules_keep_their_order(schedule: str) -> None:
    batch = a_batch({"pipeline_parallel_size": RANKS, "pipeline_schedule": schedule})
    given = np.array([123.0])
    assert with_automatic_orders(batch, equal(1.0, 1.0, 1.0), np.array([24]), given) == given
