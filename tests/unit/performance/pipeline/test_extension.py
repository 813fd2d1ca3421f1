"""Ranking extends a periodic simulation: on every row of a real space as good as simulating every micro batch."""

import numpy as np
import pytest

from tests.support.builders import mixtral_problem
from tunewright.domain.degrees import Degrees
from tunewright.domain.training_config import PIPELINE_SCHEDULES
from tunewright.performance.pipeline import simulate
from tunewright.performance.step import estimate
from tunewright.search.enumeration import enumerate_space


def test_ranking_is_within_a_third_of_a_percent_of_the_whole_simulation(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = mixtral_problem()
    batch = enumerate_space(problem, {})
    periods = np.array([simulate.PERIODS_SIMULATED[name] for name in PIPELINE_SCHEDULES])
    simulated = periods[batch.columns["pipeline_schedule"]] * batch.pipeline_parallel_size
    extended = (Degrees.of(problem, batch).num_micro_batches > simulated) & (batch.pipeline_parallel_size > 1)
    schedules = {PIPELINE_SCHEDULES[code] for code in batch.columns["pipeline_schedule"][extended]}
    assert schedules == set(PIPELINE_SCHEDULES)
    ranked = estimate(problem, batch).step_seconds
    monkeypatch.setattr(simulate, "PERIODS_SIMULATED", dict.fromkeys(PIPELINE_SCHEDULES, problem.global_batch_size))
    np.testing.assert_allclose(ranked, estimate(problem, batch).step_seconds, rtol=0.003)
