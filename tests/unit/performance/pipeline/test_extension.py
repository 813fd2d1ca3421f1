"""Ranking extends a periodic simulation: on every shape of a real space as good as simulating every micro batch."""

import numpy as np
import pytest

from tests.support.builders import mixtral_problem
from tunewright.domain.config_batch import ConfigBatch
from tunewright.domain.degrees import Degrees
from tunewright.performance.pipeline import simulate
from tunewright.performance.step import estimate
from tunewright.search.enumeration import enumerate_space


def shapes(batch: ConfigBatch, micro_batches: np.ndarray) -> np.ndarray:
    names = ("pipeline_schedule", "pipeline_parallel_size", "virtual_pipeline_parallel_size", "pipeline_layout")
    return np.stack([*(batch.columns[name] for name in names), micro_batches], axis=1)


def test_ranking_is_within_half_a_percent_of_the_whole_simulation_on_every_shape(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = mixtral_problem()
    batch = enumerate_space(problem, {"context_parallel_size": (1, 2, 8)})
    micro_batches = Degrees.of(problem, batch).num_micro_batches
    _, first = np.unique(shapes(batch, micro_batches), axis=0, return_index=True)
    one_each = batch.take(first)
    extended = micro_batches[first] > simulate.PERIODS_SIMULATED * one_each.pipeline_parallel_size
    assert extended.sum() > 50
    ranked = estimate(problem, one_each).step_seconds
    monkeypatch.setattr(simulate, "PERIODS_SIMULATED", problem.global_batch_size)
    np.testing.assert_allclose(ranked, estimate(problem, one_each).step_seconds, rtol=0.005)
