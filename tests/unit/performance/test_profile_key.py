"""What belongs to a profile key and what does not."""

import pytest

from tests.unit.performance.builders import a_batch, a_dense_model, a_moe_model, a_problem
from tunewright.domain.training_config import TrainingConfig
from tunewright.performance.profile_key import profile_groups, profile_key, profile_keys

SAME = [
    {"pipeline_parallel_size": 4},
    {"pipeline_schedule": "interleaved-1f1b"},
    {"virtual_pipeline_parallel_size": 2},
    {"pipeline_layout": "shorter-edges"},
    {"overlap_grad_reduce": False},
    {"overlap_param_gather": False},
    {"optimizer": "replicated"},
]
DIFFERENT = [
    {"tensor_parallel_size": 2},
    {"context_parallel_size": 2},
    {"micro_batch_size": 2},
    {"recompute_granularity": "full"},
    {"recompute_granularity": "selective", "recompute_modules": ("core_attn",)},
    {"precision": "fp8"},
    {"cross_entropy_fusion": False},
]
EXPERTS = [
    {"expert_parallel_size": 2},
    {"expert_tensor_parallel_size": 2},
    {"moe_dispatcher": "deepep"},
    {"sync_free_stage": 1},
]


@pytest.mark.parametrize("change", SAME, ids=str)
def test_what_enters_by_simulation_keeps_the_key(change: dict[str, object]) -> None:
    keys = profile_keys(a_problem(a_moe_model()), a_batch({}, change))
    assert keys[0] == keys[1]


@pytest.mark.parametrize("change", DIFFERENT + EXPERTS, ids=str)
def test_what_a_rank_computes_changes_the_key(change: dict[str, object]) -> None:
    keys = profile_keys(a_problem(a_moe_model()), a_batch({}, change))
    assert keys[0] != keys[1]


@pytest.mark.parametrize("change", EXPERTS, ids=str)
def test_expert_axes_mean_nothing_without_experts(change: dict[str, object]) -> None:
    keys = profile_keys(a_problem(), a_batch({}, change))
    assert keys[0] == keys[1]


def test_another_model_length_or_implementation_is_another_key() -> None:
    config = TrainingConfig()
    problems = [
        a_problem(),
        a_problem(a_dense_model(num_layers=16)),
        a_problem(sequence_length=4096),
        a_problem(implementation="torch"),
    ]
    assert len({profile_key(problem, config) for problem in problems}) == len(problems)


def test_another_batch_size_is_not() -> None:
    assert profile_key(a_problem(), TrainingConfig()) == profile_key(a_problem(global_batch_size=64), TrainingConfig())


def test_groups_point_at_the_first_row_of_each_key() -> None:
    batch = a_batch({}, {"tensor_parallel_size": 2}, {"pipeline_parallel_size": 2}, {"tensor_parallel_size": 2})
    first, index = profile_groups(a_problem(), batch)
    assert sorted(first) == [0, 1]
    assert [int(first[position]) for position in index] == [0, 1, 0, 1]
