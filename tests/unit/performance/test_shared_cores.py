"""Pipelines whose ranks share cores: bubbles are partly free, work is not."""

import numpy as np
import pytest

from tests.unit.performance.builders import a_problem
from tests.unit.performance.test_projection import a_report, modelled_profile
from tunewright.domain.training_config import TrainingConfig
from tunewright.performance.projection import project
from tunewright.performance.shared_cores import shared_pipeline_seconds


def test_ranks_with_a_core_each_wait_as_the_schedule_says() -> None:
    pipeline = np.array([3.0])
    assert shared_pipeline_seconds(pipeline, np.array([[2.0, 2.0]]), 1.0) is pipeline


@pytest.mark.parametrize(
    ("pipeline", "work", "expected"),
    [
        (5.0, [4.0, 4.0, 4.0, 4.0], 4.0),  # two cores are busy all the time: the bubble costs nothing
        (9.0, [4.0, 4.0, 4.0, 4.0], 4.5),  # a bubble so long that a core idles, at the speed of a rank alone
        (7.0, [6.0, 2.0, 2.0, 2.0], 3.5),  # a long rank gets a core to itself
    ],
)
def test_a_step_is_bound_by_the_schedule_of_fast_ranks_or_by_all_work(
    pipeline: float, work: list[float], expected: float
) -> None:
    assert shared_pipeline_seconds(np.array([pipeline]), np.array([work]), 2.0)[0] == expected


def test_a_projection_from_contended_times_has_a_shorter_bubble() -> None:
    problem, config = a_problem(global_batch_size=64), TrainingConfig(pipeline_parallel_size=4)
    profile = modelled_profile(problem, config)
    alone = project(problem, config, a_report(profile))
    shared = project(problem, config, a_report(profile.model_copy(update={"contention": 2.0})))
    assert shared.bubble_fraction < alone.bubble_fraction
    assert shared.step_seconds < alone.step_seconds
    assert sum(shared.parts.values()) == pytest.approx(shared.step_seconds)
