import numpy as np
import pytest

from tests.support.builders import a_cluster, a_problem, mixtral_problem, settings_of, small_space
from tunewright.domain.config_batch import ConfigBatch
from tunewright.domain.training_config import TrainingConfig
from tunewright.memory.estimate import estimate as estimate_memory
from tunewright.performance.profile_key import profile_key
from tunewright.performance.step import estimate as estimate_step
from tunewright.search.space import build_space


def test_every_row_is_found_again() -> None:
    space = small_space()
    assert [space.row_of(space.config(row)) for row in range(len(space))] == list(range(len(space)))


def test_a_configuration_outside_has_no_row() -> None:
    space = small_space()
    assert space.row_of(TrainingConfig(tensor_parallel_size=3)) is None
    assert space.row_of(TrainingConfig(pipeline_parallel_size=2, pipeline_layout="3,5")) is None


def test_counts_add_up() -> None:
    counts = build_space(mixtral_problem(), settings_of(mixtral_problem())).counts
    assert counts.legal == counts.fitting + counts.filtered
    assert 0 < counts.tight < counts.fitting < counts.legal


def test_rows_have_the_figures_of_single_configurations() -> None:
    space = small_space()
    for row in (0, len(space) // 2, len(space) - 1):
        alone = ConfigBatch.of([space.config(row)])
        assert space.tokens_per_second_per_gpu[row] == estimate_step(space.problem, alone).tokens_per_second_per_gpu[0]
        assert space.allocated_bytes[row] == estimate_memory(space.problem, alone).allocated_bytes[0]
        assert space.profile_key(row) == profile_key(space.problem, space.config(row))
    assert np.allclose(space.step_seconds, sum(space.parts.values()))


def test_rows_of_a_large_space_have_the_figures_that_each_has_alone() -> None:
    problem = mixtral_problem()
    settings = settings_of(problem, search_space={"context_parallel_size": (1, 2, 8, 64)})
    space = build_space(problem, settings)
    for row in np.random.default_rng(5).choice(len(space), 60, replace=False):
        alone = space.batch.take([row])
        step, verdict = estimate_step(problem, alone), space.memory_verdict(row)
        for name, seconds in step.parts.items():
            assert space.parts[name][row] == pytest.approx(seconds[0], rel=1e-12, abs=1e-12 * step.step_seconds[0])
        assert space.tokens_per_second_per_gpu[row] == pytest.approx(step.tokens_per_second_per_gpu[0], rel=1e-12)
        assert space.allocated_bytes[row] == estimate_memory(problem, alone).allocated_bytes[0]
        assert (space.fits[row], space.tight[row]) == (verdict.fits[0], verdict.tight[0])


def test_the_baseline_belongs_to_the_space_even_outside_the_axis_values() -> None:
    problem = a_problem()
    baseline = TrainingConfig(pipeline_parallel_size=2, pipeline_layout="3,5")
    space = build_space(problem, settings_of(problem, baseline=baseline))
    assert space.row_of(baseline) == len(space) - 1
    assert len(space) == len(small_space()) + 1


def test_an_illegal_baseline_does_not() -> None:
    problem = a_problem()
    baseline = TrainingConfig(tensor_parallel_size=3)
    assert build_space(problem, settings_of(problem, baseline=baseline)).row_of(baseline) is None


def test_axes_of_one_value_stay_at_the_baseline() -> None:
    problem = a_problem()
    baseline = TrainingConfig(cross_entropy_fusion=False)
    assert build_space(problem, settings_of(problem, baseline=baseline)).values("cross_entropy_fusion") == (False,)


def test_an_empty_space_counts_nothing() -> None:
    problem = a_problem()
    settings = settings_of(
        problem, search_space={"tensor_parallel_size": (3,)}, baseline=TrainingConfig(tensor_parallel_size=3)
    )
    space = build_space(problem, settings)
    assert space.counts.to_json() == {"legal": 0, "fitting": 0, "tight": 0, "filtered": 0}
    assert list(space.ranking) == []


def test_the_ranking_holds_fitting_rows_from_fast_to_slow() -> None:
    problem = a_problem(cluster=a_cluster(hbm_capacity_bytes=6 * 2**30))
    space = build_space(problem, settings_of(problem))
    assert 0 < len(space.ranking) < len(space)
    assert space.fits[space.ranking].all()
    assert (np.diff(space.tokens_per_second_per_gpu[space.ranking]) <= 0).all()


def test_the_memory_verdict_of_a_row_is_itemised() -> None:
    problem = a_problem(cluster=a_cluster(hbm_capacity_bytes=6 * 2**30))
    space = build_space(problem, settings_of(problem))
    filtered = int(np.flatnonzero(~space.fits)[0])
    message = space.memory_verdict(filtered).message(0)
    assert "does not fit" in message
    assert "weights" in message
    assert space.memory_percent(filtered) > 98
