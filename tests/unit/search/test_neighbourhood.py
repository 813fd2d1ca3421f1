import pytest

from tests.support.builders import a_moe_model, a_problem, settings_of, small_space
from tunewright import legality
from tunewright.domain.config_batch import ConfigBatch
from tunewright.domain.training_config import TrainingConfig
from tunewright.search.neighbourhood import DEPENDENT_FIELDS, nearest
from tunewright.search.space import build_space


def test_a_legal_change_needs_no_repair() -> None:
    space = small_space()
    neighbour = nearest(space, TrainingConfig(), {"micro_batch_size": 2})
    assert neighbour is not None
    assert neighbour.repaired == ()
    assert space.config(neighbour.row) == TrainingConfig(micro_batch_size=2)


def test_a_zero_bubble_schedule_switches_overlap_and_recomputation_off() -> None:
    space = small_space()
    start = TrainingConfig(pipeline_parallel_size=2, recompute_granularity="selective", recompute_modules=("mlp",))
    neighbour = nearest(space, start, {"pipeline_schedule": "zero-bubble-h1"})
    assert neighbour is not None
    found = space.config(neighbour.row)
    assert (found.overlap_grad_reduce, found.overlap_param_gather) == (False, False)
    assert (found.recompute_granularity, found.recompute_modules) == ("none", ())
    assert found.pipeline_parallel_size == 2
    assert set(neighbour.repaired) == {
        "recompute_granularity",
        "recompute_modules",
        "overlap_grad_reduce",
        "overlap_param_gather",
    }


def test_one_stage_takes_the_plain_schedule() -> None:
    space = small_space()
    start = TrainingConfig(
        pipeline_parallel_size=4,
        virtual_pipeline_parallel_size=2,
        pipeline_schedule="interleaved-1f1b",
    )
    neighbour = nearest(space, start, {"pipeline_parallel_size": 1})
    assert neighbour is not None
    assert space.config(neighbour.row) == TrainingConfig()
    assert neighbour.repaired == ("virtual_pipeline_parallel_size", "pipeline_schedule")


def test_another_degree_moves_only_when_dependent_fields_do_not_help() -> None:
    space = small_space()
    neighbour = nearest(space, TrainingConfig(), {"pipeline_schedule": "1f1b", "virtual_pipeline_parallel_size": 2})
    assert neighbour is None
    interleaved = nearest(space, TrainingConfig(), {"pipeline_schedule": "interleaved-1f1b"})
    assert interleaved is not None
    assert interleaved.repaired == ("pipeline_parallel_size", "virtual_pipeline_parallel_size")
    assert space.config(interleaved.row).pipeline_parallel_size == 2


def test_no_main_repairs_means_dependent_fields_alone() -> None:
    space = small_space()
    assert nearest(space, TrainingConfig(), {"pipeline_schedule": "interleaved-1f1b"}, main_repairs=0) is None


def test_a_value_that_nobody_has_has_no_neighbour() -> None:
    assert nearest(small_space(), TrainingConfig(), {"tensor_parallel_size": 3}) is None


def test_a_dense_dispatcher_follows_the_expert_split() -> None:
    problem = a_problem(model=a_moe_model())
    start = TrainingConfig(expert_parallel_size=4, moe_dispatcher="deepep", sync_free_stage=1)
    space = build_space(problem, settings_of(problem, baseline=start))
    neighbour = nearest(space, start, {"expert_parallel_size": 1})
    assert neighbour is not None
    assert set(neighbour.repaired) == {"moe_dispatcher", "sync_free_stage"}


@pytest.mark.parametrize(
    ("field", "value"),
    [("tensor_parallel_size", 4), ("pipeline_parallel_size", 8), ("recompute_granularity", "full")],
)
def test_neighbours_are_legal_and_only_repairs_differ(field: str, value: object) -> None:
    space, start = small_space(), TrainingConfig()
    neighbour = nearest(space, start, {field: value})
    assert neighbour is not None
    found = space.config(neighbour.row)
    assert legality.judge(space.problem, ConfigBatch.of([found])).legal[0]
    differing = {name for name in TrainingConfig.model_fields if getattr(found, name) != getattr(start, name)}
    assert differing == {field, *neighbour.repaired}
    assert set(neighbour.repaired) <= DEPENDENT_FIELDS
