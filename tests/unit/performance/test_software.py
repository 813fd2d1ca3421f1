"""Mechanisms of a software stack: each changes the step in the direction that its description says."""

import pytest

from tests.unit.performance.builders import a_batch, a_cluster, a_dense_model, a_latent_model, a_moe_model, a_problem
from tunewright.domain.parameters import ParameterCounts
from tunewright.domain.problem import TuningProblem
from tunewright.performance.constants import Efficiency
from tunewright.performance.software import Software
from tunewright.performance.step import estimate
from tunewright.performance.uncertainty import interval_half_width, relative_deviation

SMALL = {"sequence_length": 512, "global_batch_size": 64}


def seconds(problem: TuningProblem, software: Software, **config: object) -> float:
    return float(estimate(problem, a_batch(config), software=software).step_seconds[0])


def test_graphs_take_the_host_out_of_small_layers_only() -> None:
    small, large = a_problem(None, **SMALL), a_problem()
    launched, captured = (
        estimate(small, a_batch({"tensor_parallel_size": 4}), software=Software(captured_graphs=on))
        for on in (False, True)
    )
    assert captured.parts["computeForward"][0] < 0.8 * launched.parts["computeForward"][0]
    assert seconds(large, Software(captured_graphs=True)) == pytest.approx(seconds(large, Software()), rel=0.02)


def test_a_layer_is_never_faster_than_the_host_launches_it() -> None:
    problem = a_problem(None, **SMALL)
    host = problem.cluster.accelerator.calibration.host_seconds_per_layer
    assert seconds(problem, Software()) > problem.model.num_layers * host * 2.5


def test_scores_in_memory_cost_more_than_flash_attention() -> None:
    problem = a_problem(a_dense_model(), sequence_length=8192)
    assert seconds(problem, Software(flash_attention=False)) > 1.2 * seconds(problem, Software())


def test_post_validation_lets_h2_fill_the_bubble() -> None:
    problem, config = a_problem(), {"pipeline_parallel_size": 4, "pipeline_schedule": "zero-bubble-h2"}
    waiting, free = (seconds(problem, Software(post_validation=on), **config) for on in (False, True))
    assert free < waiting


def test_transfers_that_ranks_wait_for_cost_most_under_interleaving() -> None:
    plain = {"pipeline_parallel_size": 4}
    interleaved = plain | {"pipeline_schedule": "interleaved-1f1b", "virtual_pipeline_parallel_size": 8}
    problem = a_problem()
    lost = [
        seconds(problem, Software(overlaps_pipeline=False), **config) - seconds(problem, Software(), **config)
        for config in (plain, interleaved)
    ]
    assert lost[1] > 4 * lost[0] > 0


def test_without_sequence_parallel_norms_are_repeated_and_nothing_is_gathered_twice() -> None:
    problem = a_problem()
    step = [
        estimate(problem, a_batch({"tensor_parallel_size": 8}), software=stack)
        for stack in (Software(captured_graphs=True), Software(captured_graphs=True, sequence_parallel=False))
    ]
    assert step[1].parts["tensorCommunication"][0] < step[0].parts["tensorCommunication"][0]
    assert step[1].parts["computeForward"][0] > step[0].parts["computeForward"][0]


def test_experts_that_are_cast_one_by_one_cost_more_in_8_bits_only() -> None:
    problem = a_problem(a_moe_model(), backend="megatron")
    fused, single = Software(), Software(fused_expert_casts=False)
    assert seconds(problem, single, precision="fp8") > 1.03 * seconds(problem, fused, precision="fp8")
    assert seconds(problem, single) == seconds(problem, fused)


def test_block_scales_cost_host_time_for_each_local_expert() -> None:
    problem = a_problem(a_latent_model(), **SMALL)
    few, many = {"expert_parallel_size": 8, "precision": "mxfp8"}, {"expert_parallel_size": 1, "precision": "mxfp8"}
    assert seconds(problem, Software(), **many) > 1.5 * seconds(problem, Software(), **few)


def test_intervals_are_wider_where_less_was_measured() -> None:
    plain: dict[str, object] = {}
    rare = {"pipeline_parallel_size": 4, "pipeline_schedule": "zero-bubble-h1"}
    widths = interval_half_width(a_problem(), a_batch(plain, rare))
    assert widths[1] > widths[0] > 0
    assert interval_half_width(a_problem(a_moe_model()), a_batch(plain))[0] > widths[0]
    assert relative_deviation(a_problem(), a_batch(plain))[0] == pytest.approx(widths[0] / 1.2816)


def test_a_tensor_group_over_both_processors_launches_slower() -> None:
    problem = a_problem(a_dense_model(), cluster=a_cluster(nodes=1), **SMALL)
    assert seconds(problem, Software(), tensor_parallel_size=8) > 1.3 * seconds(
        problem, Software(), tensor_parallel_size=4
    )


def test_half_precision_gradients_halve_the_reduction_and_spare_the_optimizer_traffic() -> None:
    problem, config = a_problem(), a_batch({"optimizer": "replicated", "overlap_grad_reduce": False})
    whole, half = (estimate(problem, config, software=Software(gradient_bytes=size)).parts for size in (4.0, 2.0))
    assert half["gradientReduction"][0] == pytest.approx(whole["gradientReduction"][0] / 2, rel=0.02)
    efficiency, accelerator = Efficiency.of(problem.cluster.accelerator), problem.cluster.accelerator
    parameters = ParameterCounts.of(problem.model).total
    updated = 2 * parameters / (accelerator.hbm_bytes_per_second * efficiency.optimizer_hbm)
    cleared = 2 * parameters / (accelerator.hbm_bytes_per_second * accelerator.hbm_efficiency)
    assert whole["optimizer"][0] - half["optimizer"][0] == pytest.approx(updated + cleared, rel=0.01)
