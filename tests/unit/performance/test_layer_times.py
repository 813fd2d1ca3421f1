"""Analytic layer times: how precision, splits, recomputation and features move them, and times from a profile."""

import numpy as np
import pytest

from tests.unit.performance.builders import (
    a_batch,
    a_dense_model,
    a_latent_model,
    a_moe_model,
    a_problem,
    an_accelerator,
)
from tunewright.domain.model_architecture import ModelArchitecture
from tunewright.domain.operation_checkpointing import kept_products, products, recomputed_products
from tunewright.performance.compute import analytic_layer_times
from tunewright.performance.profiled import profiled_layer_times
from tunewright.performance.software import Software
from tunewright.trial_protocol.report import LayerTiming, Profile, Timing

TIMING = LayerTiming(
    forward=Timing(seconds=1.0, spread=0.01),
    backward_input=Timing(seconds=2.0, spread=0.04),
    backward_weight=Timing(seconds=0.5, spread=0.02),
)


def test_backward_takes_about_twice_the_forward_pass() -> None:
    times = analytic_layer_times(a_problem(), a_batch({}))
    ratio = (times.dense_backward_input + times.dense_backward_weight) / times.dense_forward
    assert 1.9 < ratio[0] < 2.6


def test_kinds_of_layer_that_the_model_lacks_take_no_time() -> None:
    dense = analytic_layer_times(a_problem(a_dense_model()), a_batch({}))
    moe = analytic_layer_times(a_problem(a_moe_model()), a_batch({}))
    assert dense.moe_forward[0] == moe.dense_forward[0] == 0
    assert dense.dense_forward[0] > 0
    assert moe.moe_forward[0] > 0


def test_a_tensor_split_and_a_context_split_shorten_a_layer_and_a_larger_micro_batch_lengthens_it() -> None:
    batch = a_batch({}, {"tensor_parallel_size": 4}, {"context_parallel_size": 4}, {"micro_batch_size": 2})
    one, tensor, context, two = analytic_layer_times(a_problem(), batch).dense_forward
    assert one / 4 < tensor < one / 2
    assert one / 4 < context < one / 2
    assert one < two < 2 * one


def test_fp8_shortens_the_linear_layers_but_not_the_attention_core() -> None:
    times = analytic_layer_times(a_problem(), a_batch({}, {"precision": "fp8"}))
    assert times.dense_forward[1] < 0.85 * times.dense_forward[0]
    assert times.dense_core_forward[1] == times.dense_core_forward[0]
    assert times.head_forward[1] == times.head_forward[0]


def test_full_recomputation_adds_the_forward_pass_to_the_input_gradient() -> None:
    times = analytic_layer_times(a_problem(a_moe_model()), a_batch({}, {"recompute_granularity": "full"}))
    added = times.moe_backward_input[1] - times.moe_backward_input[0]
    assert added == pytest.approx(times.moe_forward[0])
    assert times.moe_recompute[1] == pytest.approx(times.moe_forward[0])
    assert times.moe_recompute[0] == 0


def test_selective_recomputation_adds_only_its_modules() -> None:
    def selective(*modules: str) -> dict[str, object]:
        return {"recompute_granularity": "selective", "recompute_modules": modules}

    batch = a_batch(
        selective("moe_act"),
        selective("moe"),
        selective("moe", "moe_act"),
        selective("mla_up_proj"),
        selective("mlp"),
        selective("shared_experts"),
        selective("core_attn"),
    )
    times = analytic_layer_times(a_problem(a_latent_model()), batch)
    activation, moe, both, up, mlp, shared, core = times.moe_recompute
    assert 0 < activation < moe < times.moe_forward[0]
    assert both == pytest.approx(moe)
    assert 0 < up < core + moe
    assert mlp == 0 < times.dense_recompute[4]
    assert 0 < shared < moe
    assert core == pytest.approx(times.dense_core_forward[0])


@pytest.mark.parametrize("model", [a_dense_model(), a_moe_model(), a_latent_model()], ids=lambda model: model.name)
def test_torchtitans_selective_runs_every_second_product_again(model: ModelArchitecture) -> None:
    batch = a_batch({}, {"recompute_granularity": "selective"}, {"recompute_granularity": "full"})
    problem = a_problem(model, backend="torchtitan", implementation="torch")
    times = analytic_layer_times(problem, batch)
    kind = "moe" if model.is_moe else "dense"
    none, selective, full = getattr(times, f"{kind}_recompute")
    assert none == 0
    assert 0.1 * full < selective < 0.9 * full
    modules = analytic_layer_times(a_problem(model, implementation="torch"), batch)
    assert getattr(modules, f"{kind}_recompute")[1] == 0  # elsewhere `selective` without modules drops nothing


def test_memory_keeps_what_performance_does_not_compute_again() -> None:
    for model in (a_dense_model(), a_moe_model(), a_latent_model()):
        for kind in ("dense", "moe"):
            order = products(model, kind)
            assert not set(kept_products(order, compiled=True)) & set(recomputed_products(order))
            assert {*kept_products(order), *recomputed_products(order)} >= set(order[:-1])


def test_loss_fusion_shortens_the_head_only() -> None:
    times = analytic_layer_times(a_problem(), a_batch({}, {"cross_entropy_fusion": False}))
    assert times.head_forward[1] > times.head_forward[0]
    assert times.dense_forward[1] == times.dense_forward[0]


def test_sync_free_stages_take_the_hosts_wait_off_a_moe_layer() -> None:
    times = analytic_layer_times(a_problem(a_moe_model()), a_batch(*({"sync_free_stage": s} for s in (0, 1, 2))))
    waits = times.moe_forward
    assert waits[0] > waits[1] > waits[2]


def test_more_expert_ranks_give_fewer_and_fuller_experts() -> None:
    batch = a_batch({"expert_parallel_size": 1}, {"expert_parallel_size": 8})
    graphs = Software(captured_graphs=True)
    spread = analytic_layer_times(a_problem(a_latent_model(), sequence_length=512), batch, software=graphs).moe_forward
    assert spread[1] < spread[0]


def test_eager_torch_moves_more_memory() -> None:
    fused = analytic_layer_times(a_problem(), a_batch({}))
    eager = analytic_layer_times(a_problem(implementation="torch"), a_batch({}))
    assert eager.dense_forward[0] > fused.dense_forward[0]


def test_the_launch_floor_holds_however_small_the_layer() -> None:
    tiny = a_dense_model(hidden_size=64, ffn_hidden_size=64, head_dim=16, num_attention_heads=4, num_key_value_heads=4)
    times = analytic_layer_times(a_problem(tiny, sequence_length=16), a_batch({}))
    assert times.dense_forward[0] > 10 * an_accelerator().launch_overhead_seconds


def test_a_profile_replaces_what_it_timed_and_names_the_rest() -> None:
    problem, batch = a_problem(), a_batch({})
    analytic = analytic_layer_times(problem, batch)
    profiled = profiled_layer_times(problem, batch, Profile(dense_layer=TIMING, head=TIMING))
    assert profiled.modelled == ("embedding", "optimizer")
    assert profiled.spread == 0.04
    assert profiled.times.dense_forward[0] == profiled.times.head_forward[0] == 1.0
    assert profiled.times.dense_backward_weight[0] == 0.5
    assert profiled.times.embedding_forward[0] == analytic.embedding_forward[0]
    assert profiled.times.dense_core_forward[0] == pytest.approx(
        analytic.dense_core_forward[0] / analytic.dense_forward[0]
    )


def test_a_profile_of_a_recomputing_layer_keeps_the_modelled_share_of_recomputation() -> None:
    problem, batch = a_problem(), a_batch({"recompute_granularity": "full"})
    analytic = analytic_layer_times(problem, batch)
    share = analytic.dense_recompute / analytic.dense_backward_input
    profiled = profiled_layer_times(problem, batch, Profile(dense_layer=TIMING))
    assert profiled.times.dense_recompute[0] == pytest.approx(2.0 * share[0])


def test_a_compressed_query_replaces_the_query_projection_by_two_smaller_ones() -> None:
    plain = a_latent_model()
    assert plain.latent_attention is not None
    latent = plain.latent_attention.model_copy(update={"query_rank": 128})
    compressed = a_latent_model(latent_attention=latent)
    batch = a_batch({"micro_batch_size": 4})
    before, after = (analytic_layer_times(a_problem(model), batch).dense_forward[0] for model in (plain, compressed))
    assert after < before


def test_rows_with_one_profile_key_share_their_times() -> None:
    batch = a_batch({"pipeline_parallel_size": 4}, {"tensor_parallel_size": 2}, {"pipeline_schedule": "v-half"})
    times = analytic_layer_times(a_problem(), batch)
    columns = [value for value in vars(times).values() if isinstance(value, np.ndarray)]
    assert len(columns) == 20
    for column in columns:
        assert column[0] == column[2]
        assert np.isfinite(column).all()
