"""Volumes of a layer's collectives: which ones, how often, how large."""

import numpy as np
import pytest

from tests.unit.performance.builders import a_batch, a_cluster, a_dense_model, a_latent_model, a_moe_model, a_problem
from tunewright.domain.config_batch import ConfigBatch
from tunewright.domain.problem import TuningProblem
from tunewright.domain.routing import token_copies
from tunewright.performance.collectives import Collectives
from tunewright.performance.layer_communication import (
    LayerCommunication,
    dense_layer_communication,
    moe_layer_communication,
)
from tunewright.performance.placement import Groups


def dense(problem: TuningProblem, batch: ConfigBatch) -> LayerCommunication:
    return dense_layer_communication(problem, batch, Groups.of(problem, batch), Collectives(problem.cluster))


def moe(problem: TuningProblem, batch: ConfigBatch) -> LayerCommunication:
    return moe_layer_communication(problem, batch, Groups.of(problem, batch), Collectives(problem.cluster))


def gather(problem: TuningProblem, batch: ConfigBatch, size_bytes: float) -> float:
    collectives, group = Collectives(problem.cluster), Groups.of(problem, batch).tensor
    return float(collectives.all_gather(group, np.array([size_bytes]))[0])


def test_a_dense_layer_gathers_and_scatters_twice_forward_and_gathers_twice_more_backward() -> None:
    problem, batch = a_problem(), a_batch({"tensor_parallel_size": 8, "micro_batch_size": 2})
    once = gather(problem, batch, 2 * 8192 * 4096 * 2)
    layer = dense(problem, batch)
    assert layer.tensor_forward[0] == pytest.approx(4 * once)
    assert layer.tensor_backward[0] == pytest.approx(6 * once)


def test_ranks_that_share_a_key_value_head_gather_the_projection_too() -> None:
    problem = a_problem(a_dense_model(num_key_value_heads=2))
    batch = a_batch({"tensor_parallel_size": 4})
    once = gather(problem, batch, 8192 * 4096 * 2)
    extra = gather(problem, batch, 8192 * (32 + 4) * 128 * 2)
    assert dense(problem, batch).tensor_forward[0] == pytest.approx(4 * once + extra)


@pytest.mark.parametrize("groups", [8, 2], ids=["enough-heads", "shared-heads"])
def test_torch_programs_have_saved_what_megatron_gathers_again(groups: int) -> None:
    problem = a_problem(a_dense_model(num_key_value_heads=groups), implementation="torch")
    batch = a_batch({"tensor_parallel_size": 4})
    layer, once = dense(problem, batch), gather(problem, batch, 8192 * 4096 * 2)
    assert layer.tensor_forward[0] == layer.tensor_backward[0] == pytest.approx(4 * once)


def test_torch_programs_tell_each_other_first_how_many_tokens_come() -> None:
    batch = a_batch({"expert_parallel_size": 8})
    torch, megatron = (
        moe(a_problem(a_moe_model(), implementation=name), batch) for name in ("torch", "transformer-engine")
    )
    assert torch.expert_forward[0] > megatron.expert_forward[0]
    assert torch.expert_backward[0] == megatron.expert_backward[0]


def test_latent_attention_gathers_its_compressed_factors() -> None:
    problem, batch = a_problem(a_latent_model()), a_batch({"tensor_parallel_size": 8})
    whole = gather(problem, batch, 8192 * 2048 * 2)
    compressed = gather(problem, batch, 8192 * (2048 + 512 + 64) * 2)
    assert dense(problem, batch).tensor_forward[0] == pytest.approx(3 * whole + compressed)


def test_a_moe_layer_without_shared_experts_has_half_of_a_dense_layers_tensor_collectives() -> None:
    problem, batch = a_problem(a_moe_model()), a_batch({"tensor_parallel_size": 4})
    assert moe(problem, batch).tensor_forward[0] == pytest.approx(dense(problem, batch).tensor_forward[0] / 2)


def test_without_splits_a_layer_sends_nothing() -> None:
    problem = a_problem(a_moe_model())
    layer = moe(problem, a_batch({}))
    sent = (layer.tensor_forward, layer.tensor_backward, layer.context_forward, layer.expert_forward)
    assert all(part[0] == 0 for part in sent)


def test_dispatch_and_combine_send_each_token_to_its_experts() -> None:
    problem = a_problem(a_moe_model(), cluster=a_cluster(scale_up_latency_seconds=0.0))
    batch = a_batch({"expert_parallel_size": 8})
    expected = 2 * 8192 * 2 * 6144 * 2 * 7 / 8 / 560e9
    assert moe(problem, batch).expert_forward[0] == pytest.approx(expected)
    assert moe(problem, batch).expert_backward[0] == pytest.approx(expected)


def test_deepep_sends_a_token_once_per_rank() -> None:
    experts = a_latent_model().experts
    assert experts is not None
    assert token_copies(experts, np.array([8, 1, 64])) == pytest.approx([4.54, 1.0, 6.0], abs=0.01)
    problem = a_problem(a_latent_model(), cluster=a_cluster(scale_up_latency_seconds=0.0))
    batch = a_batch(
        {"expert_parallel_size": 8, "moe_dispatcher": "deepep"},
        {"expert_parallel_size": 8, "moe_dispatcher": "all-to-all"},
    )
    deepep, plain = moe(problem, batch).expert_forward
    assert deepep / plain == pytest.approx(4.54 / 6, abs=0.001)


def test_the_ring_passes_keys_and_values_and_twice_that_backward() -> None:
    problem = a_problem(cluster=a_cluster(scale_up_latency_seconds=0.0))
    layer = dense(problem, a_batch({"context_parallel_size": 4}))
    message = 8192 / 4 * 2 * 8 * 128 * 2
    assert layer.context_forward[0] == pytest.approx(3 * message / (560e9 / 7))
    assert layer.context_backward[0] == pytest.approx(2 * layer.context_forward[0])


def test_recomputation_repeats_the_collectives_of_what_it_repeats() -> None:
    problem = a_problem(a_moe_model())
    split = {"tensor_parallel_size": 2, "expert_parallel_size": 4}
    batch = a_batch(
        split,
        split | {"recompute_granularity": "full"},
        split | {"recompute_granularity": "selective", "recompute_modules": ("moe",)},
        split | {"recompute_granularity": "selective", "recompute_modules": ("moe_act",)},
    )
    layer = moe(problem, batch)
    assert layer.expert_again / layer.expert_forward == pytest.approx([0, 1, 1, 0])
    assert layer.tensor_again[1] == pytest.approx(layer.tensor_forward[1])
    assert layer.tensor_again[0] == layer.tensor_again[3] == 0
