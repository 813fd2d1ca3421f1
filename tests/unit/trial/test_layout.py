"""Where ranks stand: the groups of a layout, in Megatron's order, and the layers of a pipeline rank."""

import pytest

from tunewright.domain.training_config import TrainingConfig
from tunewright_trial.parallel.layout import Groups, Layout
from tunewright_trial.parallel.pipeline import stages_of_rank


@pytest.mark.parametrize("name", Groups.__dataclass_fields__)
@pytest.mark.parametrize(("tensor", "pipeline", "expert"), [(1, 1, 1), (2, 2, 2), (4, 1, 8), (1, 8, 1), (2, 2, 4)])
def test_every_rank_is_in_exactly_one_group_of_a_kind(tensor: int, pipeline: int, expert: int, name: str) -> None:
    groups = Layout(16, tensor, pipeline, expert).group_ranks(name)
    assert sorted(rank for group in groups for rank in group) == list(range(16))
    assert len({len(group) for group in groups}) == 1


def test_groups_follow_megatrons_rank_order() -> None:
    layout = Layout(8, tensor=2, pipeline=2, expert=2)
    assert layout.group_ranks("tensor")[0] == [0, 1]
    assert layout.group_ranks("data")[0] == [0, 2]
    assert layout.group_ranks("pipeline")[0] == [0, 4]
    assert layout.group_ranks("expert_data")[0] == [0, 2]


def test_context_ranks_lie_between_tensor_and_data_ranks_and_share_weights() -> None:
    layout = Layout(8, tensor=2, context=2)
    assert layout.group_ranks("context") == [[0, 2], [1, 3], [4, 6], [5, 7]]
    assert layout.group_ranks("data") == [[0, 2, 4, 6], [1, 3, 5, 7]]
    assert [layout.data_rank(rank) for rank in range(8)] == [0, 0, 0, 0, 1, 1, 1, 1]


def test_slices_of_an_expert_are_on_neighbours() -> None:
    layout = Layout(8, expert=2, expert_tensor=2)
    assert layout.group_ranks("expert_tensor")[0] == [0, 1]
    assert layout.group_ranks("expert")[:2] == [[0, 2], [1, 3]]
    assert layout.group_ranks("expert_data")[0] == [0, 4]


def test_tied_ends_on_different_ranks_form_pairs() -> None:
    assert Layout(8, pipeline=4, tied_apart=True).group_ranks("edges") == [[0, 6], [1, 7]]


@pytest.mark.parametrize(
    ("options", "rank", "stages"),
    [
        ({"pipeline_parallel_size": 2}, 1, [(1, [4, 5, 6, 7])]),
        ({"pipeline_parallel_size": 2, "pipeline_layout": "5,3"}, 1, [(1, [5, 6, 7])]),
        (
            {
                "pipeline_parallel_size": 2,
                "virtual_pipeline_parallel_size": 2,
                "pipeline_schedule": "interleaved-1f1b",
            },
            0,
            [(0, [0, 1]), (2, [4, 5])],
        ),
        (
            {"pipeline_parallel_size": 2, "virtual_pipeline_parallel_size": 2, "pipeline_schedule": "zero-bubble-v"},
            0,
            [(0, [0, 1]), (3, [6, 7])],
        ),
    ],
    ids=["1f1b", "uneven", "interleaved", "v-shaped"],
)
def test_a_rank_holds_the_layers_of_its_virtual_stages(
    options: dict[str, object], rank: int, stages: list[tuple[int, list[int]]]
) -> None:
    assert stages_of_rank(TrainingConfig.parse(options), 8, rank) == stages
