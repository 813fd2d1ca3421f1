"""Profiles of a launched training stack: what is launched, and what two depths tell."""

import pytest

from tests.support.builders import a_cluster, a_problem, mixtral_problem
from tunewright.backends.launched_profile import MICRO_BATCHES, profile_of, reduced
from tunewright.domain.catalog_loader import shipped_catalog
from tunewright.domain.training_config import TrainingConfig
from tunewright.errors import InvalidInput
from tunewright.trial_protocol.report import Timing


def test_one_node_keeps_the_shapes_of_a_rank() -> None:
    config = TrainingConfig(
        tensor_parallel_size=2, pipeline_parallel_size=4, expert_parallel_size=8, micro_batch_size=2
    )
    problem, launched = reduced(mixtral_problem(), config, 4)
    assert (problem.world_size, problem.model.num_layers) == (8, 4)
    assert problem.global_batch_size == 2 * 4 * MICRO_BATCHES
    assert (launched.pipeline_parallel_size, launched.tensor_parallel_size, launched.expert_parallel_size) == (1, 2, 8)


def test_experts_beyond_the_node_are_left_out_with_their_ranks() -> None:
    whole = a_problem(model=shipped_catalog().model("deepseek-v3"), cluster=a_cluster(nodes=8, gpus_per_node=8))
    problem, launched = reduced(whole, TrainingConfig(expert_parallel_size=64), 2)
    assert launched.expert_parallel_size == 8
    assert problem.model.experts is not None and whole.model.experts is not None
    assert problem.model.experts.num_experts / 8 == whole.model.experts.num_experts / 64
    assert problem.model.num_dense_layers == 0


def test_a_tensor_group_larger_than_a_node_is_refused() -> None:
    with pytest.raises(InvalidInput, match="tensorParallelSize"):
        reduced(mixtral_problem(), TrainingConfig(tensor_parallel_size=8, context_parallel_size=2), 2)


def test_two_depths_separate_a_layer_from_the_ends() -> None:
    layer, ends = 0.012, 0.003
    steps = [Timing(seconds=MICRO_BATCHES * (ends + depth * layer), spread=0.02) for depth in (2, 4)]
    profile = profile_of(a_problem(), TrainingConfig(tensor_parallel_size=2), (2, 4), steps, 7)
    assert profile.dense_layer is not None and profile.head is not None
    for timing, expected in ((profile.dense_layer, layer), (profile.head, ends)):
        parts = (timing.forward, timing.backward_input, timing.backward_weight)
        assert sum(part.seconds for part in parts) == pytest.approx(expected, rel=1e-3)
        assert {part.spread for part in parts} == {0.02}
    assert profile.included_groups == ("tensor",)
    assert profile.peak_memory_bytes == 7


def test_full_recomputation_counts_with_the_input_gradient() -> None:
    steps = [Timing(seconds=depth * 0.4) for depth in (2, 4)]
    profile = profile_of(a_problem(), TrainingConfig(recompute_granularity="full"), (2, 4), steps, 0)
    assert profile.dense_layer is not None
    assert profile.dense_layer.backward_input.seconds == pytest.approx(2 * profile.dense_layer.forward.seconds)
