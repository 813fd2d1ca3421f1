"""Properties of the performance model over random configurations: finite, additive, the same alone and together."""

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.unit.performance.builders import a_batch, a_dense_model, a_latent_model, a_moe_model, a_problem
from tunewright.domain.config_batch import ConfigBatch
from tunewright.domain.model_architecture import ModelArchitecture
from tunewright.domain.problem import TuningProblem
from tunewright.domain.schedule.orders import splits_backward
from tunewright.domain.training_config import (
    MOE_DISPATCHERS,
    OPTIMIZERS,
    PIPELINE_SCHEDULES,
    PRECISIONS,
    RECOMPUTE_METHODS,
    RECOMPUTE_MODULES,
    TrainingConfig,
)
from tunewright.performance.profile_key import profile_key, profile_keys
from tunewright.performance.step import estimate

SOME_LAYERS_KEPT = TrainingConfig(
    pipeline_parallel_size=3,
    context_parallel_size=2,
    recompute_granularity="full",
    recompute_method="block",
    pipeline_layout="shorter-edges",
)
"""A host that launches layers of both kinds later than the device is ready for them."""
MODELS = (a_dense_model(), a_moe_model(), a_latent_model(), a_dense_model(sliding_window=128, gated_mlp=False))


@st.composite
def configs(draw: st.DrawFn) -> TrainingConfig:
    """Any configuration, legal or not: the values of illegal ones must be finite too."""
    power = st.sampled_from([1, 2, 4, 8])
    granularity = draw(st.sampled_from(["none", "selective", "full"]))
    modules = draw(st.sets(st.sampled_from(RECOMPUTE_MODULES))) if granularity == "selective" else set()
    return TrainingConfig(
        tensor_parallel_size=draw(power),
        pipeline_parallel_size=draw(st.sampled_from([1, 2, 3, 4, 8])),
        virtual_pipeline_parallel_size=draw(st.sampled_from([1, 2, 4])),
        context_parallel_size=draw(power),
        expert_parallel_size=draw(power),
        expert_tensor_parallel_size=draw(st.sampled_from([1, 2])),
        micro_batch_size=draw(power),
        recompute_granularity=granularity,
        recompute_modules=tuple(modules),
        recompute_method=draw(st.sampled_from(RECOMPUTE_METHODS)),
        recompute_num_layers=draw(st.sampled_from([1, 3])),
        moe_dispatcher=draw(st.sampled_from(MOE_DISPATCHERS)),
        pipeline_schedule=draw(st.sampled_from(PIPELINE_SCHEDULES)),
        pipeline_layout=draw(st.sampled_from(["even", "shorter-edges"])),
        precision=draw(st.sampled_from(PRECISIONS)),
        optimizer=draw(st.sampled_from(OPTIMIZERS)),
        overlap_grad_reduce=draw(st.booleans()),
        overlap_param_gather=draw(st.booleans()),
        cross_entropy_fusion=draw(st.booleans()),
        sync_free_stage=draw(st.sampled_from([0, 1, 2, 3])),
    )


some_configs = st.lists(configs(), min_size=1, max_size=6)
models = st.sampled_from(MODELS)


@settings(max_examples=60)
@given(models, some_configs, st.sampled_from([8, 64, 512]))
def test_estimates_are_finite_and_parts_are_not_negative_and_sum_to_the_step(
    model: ModelArchitecture, rows: list[TrainingConfig], global_batch: int
) -> None:
    step = estimate(a_problem(model, global_batch_size=global_batch), ConfigBatch.of(rows))
    for name, seconds in step.parts.items():
        assert np.isfinite(seconds).all(), name
        assert (seconds >= 0).all(), name
    np.testing.assert_allclose(sum(step.parts.values()), step.step_seconds, rtol=1e-12)
    assert (step.tokens_per_second_per_gpu > 0).all()
    assert ((step.bubble_fraction >= 0) & (step.bubble_fraction < 1)).all()
    assert (step.hardware_flops_utilisation >= step.model_flops_utilisation).all()


@settings(max_examples=40)
@given(models, some_configs, st.sampled_from([8, 512, 4096]))
def test_a_batch_equals_its_rows_one_by_one(
    model: ModelArchitecture, rows: list[TrainingConfig], global_batch: int
) -> None:
    problem = a_problem(model, global_batch_size=global_batch)
    together = estimate(problem, ConfigBatch.of(rows))
    for index, row in enumerate(rows):
        alone = estimate(problem, ConfigBatch.of([row]))
        np.testing.assert_allclose(alone.step_seconds[0], together.step_seconds[index], rtol=1e-9)
        for name, seconds in alone.parts.items():
            np.testing.assert_allclose(seconds[0], together.parts[name][index], rtol=1e-9, atol=1e-12)


@settings(max_examples=40)
@given(st.sampled_from(PIPELINE_SCHEDULES), st.sampled_from([2, 4, 8]), st.integers(0, 5))
def test_more_micro_batches_never_raise_the_bubble_fraction_much_and_never_make_it_negative(
    schedule: str, ranks: int, doublings: int
) -> None:
    chunks = 2 if schedule == "interleaved-1f1b" or schedule in ("zero-bubble-v", "v-half", "v-min") else 1
    config = {
        "pipeline_parallel_size": ranks,
        "virtual_pipeline_parallel_size": chunks,
        "pipeline_schedule": schedule,
    }
    smaller, larger = (
        estimate(a_problem(global_batch_size=64 * 2**power), a_batch(config)).bubble_fraction[0]
        for power in (doublings, doublings + 1)
    )
    assert 0 <= larger <= smaller + 1e-9


@settings(max_examples=40)
@given(models, some_configs)
def test_equal_keys_mean_equal_keys_alone(model: ModelArchitecture, rows: list[TrainingConfig]) -> None:
    problem = a_problem(model)
    keys = profile_keys(problem, ConfigBatch.of(rows))
    assert [profile_key(problem, row) for row in rows] == list(keys)


@settings(max_examples=40)
@given(models, configs())
@example(a_latent_model(), SOME_LAYERS_KEPT)
def test_a_faster_device_is_never_slower(model: ModelArchitecture, config: TrainingConfig) -> None:
    problem = a_problem(model)
    accelerator = problem.cluster.accelerator
    faster = accelerator.model_copy(
        update={
            "peak_flops_per_second": {name: 2 * peak for name, peak in accelerator.peak_flops_per_second.items()},
            "hbm_bytes_per_second": 2 * accelerator.hbm_bytes_per_second,
        }
    )
    upgraded = problem.model_copy(update={"cluster": problem.cluster.model_copy(update={"accelerator": faster})})
    before, after = (_seconds_that_never_grow(which, config) for which in (problem, upgraded))
    # What runs again has its share of the host's launches by its times, and their floors do not scale.
    assert after <= before * 1.002


def _seconds_that_never_grow(problem: TuningProblem, config: TrainingConfig) -> float:
    """Return the seconds of a step, without idling where B and W are apart.

    Where the host launches too late, a faster device ends B earlier and then waits in W: the sum stays, but an order
    that was made for other times may idle more.
    """
    parts = estimate(problem, ConfigBatch.of([config])).parts
    idling = {"pipelineBubble", "pipelineTransfer"} if splits_backward(config.pipeline_schedule) else set()
    return float(sum(seconds[0] for name, seconds in parts.items() if name not in idling))
