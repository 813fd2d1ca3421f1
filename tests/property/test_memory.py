"""What holds for the memory of every configuration."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.memory.examples import CPU, DEEPSEEK_V2_LITE, LLAMA_3_8B, LLAMA_32_1B, MI355X, MIXTRAL_8X22B, problem
from tunewright.domain.config_batch import ConfigBatch
from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import (
    MOE_DISPATCHERS,
    OPTIMIZERS,
    PIPELINE_SCHEDULES,
    PRECISIONS,
    RECOMPUTE_GRANULARITIES,
    RECOMPUTE_METHODS,
    RECOMPUTE_MODULES,
    V_SHAPED_SCHEDULES,
    TrainingConfig,
)
from tunewright.memory import KINDS, Software, estimate, screen

SIZES = st.sampled_from((1, 2, 4, 8))


@st.composite
def configs(draw: st.DrawFn) -> TrainingConfig:
    granularity = draw(st.sampled_from(RECOMPUTE_GRANULARITIES))
    schedule = draw(st.sampled_from(PIPELINE_SCHEDULES))
    chunks = 2 if schedule in V_SHAPED_SCHEDULES or schedule == "interleaved-1f1b" else 1
    modules = draw(st.sets(st.sampled_from(RECOMPUTE_MODULES))) if granularity == "selective" else ()
    return TrainingConfig(
        tensor_parallel_size=draw(SIZES),
        pipeline_parallel_size=draw(SIZES),
        virtual_pipeline_parallel_size=chunks,
        context_parallel_size=draw(st.sampled_from((1, 2))),
        expert_parallel_size=draw(SIZES),
        expert_tensor_parallel_size=draw(st.sampled_from((1, 2))),
        micro_batch_size=draw(SIZES),
        recompute_granularity=granularity,
        recompute_modules=tuple(modules),
        recompute_method=draw(st.sampled_from(RECOMPUTE_METHODS)),
        recompute_num_layers=draw(st.integers(1, 40)),
        moe_dispatcher=draw(st.sampled_from(MOE_DISPATCHERS)),
        pipeline_schedule=schedule,
        pipeline_layout=draw(st.sampled_from(("even", "shorter-edges"))),
        precision=draw(st.sampled_from(PRECISIONS)),
        optimizer=draw(st.sampled_from(OPTIMIZERS)),
        cross_entropy_fusion=draw(st.booleans()),
        sync_free_stage=draw(st.integers(0, 3)),
    )


@st.composite
def problems(draw: st.DrawFn) -> TuningProblem:
    model = draw(st.sampled_from((LLAMA_3_8B, LLAMA_32_1B, MIXTRAL_8X22B, DEEPSEEK_V2_LITE)))
    implementation = draw(st.sampled_from(("torch", "transformer-engine")))
    imbalance = draw(st.sampled_from((1.0, 1.3, 16.0)))
    device = draw(st.sampled_from((MI355X, CPU)))
    backend = draw(st.sampled_from(("primus", "torchtitan")))
    return problem(
        model,
        64,
        device,
        implementation=implementation,
        backend=backend,
        routing_imbalance=imbalance,
        global_batch_size=1024,
    )


SOFTWARE = st.builds(
    Software,
    flash_attention=st.booleans(),
    compiled_layers=st.booleans(),
    offloads_activations=st.booleans(),
    float32_weights=st.booleans(),
    in_place_loss=st.sampled_from((None, True, False)),
    fp8_weights=st.booleans(),
    gradient_bytes=st.sampled_from((2.0, 4.0)),
    master_bytes=st.sampled_from((2.0, 4.0)),
    moment_bytes=st.sampled_from((2.0, 4.0)),
)


@given(problems(), st.lists(configs(), min_size=1, max_size=8), SOFTWARE)
def test_items_are_finite_and_not_negative_and_sum_to_the_totals(
    posed: TuningProblem, chosen: list[TrainingConfig], software: Software
) -> None:
    result = estimate(posed, ConfigBatch.of(chosen), software=software)
    for name, size in result.items.items():
        assert np.isfinite(size).all(), name
        assert (size >= 0).all(), name
        assert (size[~result.rank_exists] == 0).all(), name
    summed = sum(result.items[name] for names in KINDS.values() for name in names)
    np.testing.assert_allclose(result.device_by_rank, summed, rtol=1e-12)
    assert set(result.items) == {name for names in KINDS.values() for name in names}
    assert (result.allocated_bytes <= result.reserved_bytes).all()
    assert (result.reserved_bytes <= result.device_bytes).all()
    worst = np.take_along_axis(result.allocated_by_rank, result.worst_rank[:, None], axis=1)[:, 0]
    np.testing.assert_array_equal(worst, result.allocated_bytes)


@given(problems(), st.lists(configs(), min_size=2, max_size=6))
def test_a_batch_equals_its_rows_one_by_one(posed: TuningProblem, chosen: list[TrainingConfig]) -> None:
    together = estimate(posed, ConfigBatch.of(chosen))
    for row, config in enumerate(chosen):
        alone = estimate(posed, ConfigBatch.of([config]))
        ranks = alone.rank_exists.shape[1]
        for name, size in alone.items.items():
            np.testing.assert_array_equal(together.items[name][row, :ranks], size[0], err_msg=name)
        assert together.breakdown(row) == alone.breakdown(0)


@given(problems(), st.lists(configs(), min_size=1, max_size=8))
def test_screening_a_batch_gives_the_totals_of_its_rows(posed: TuningProblem, chosen: list[TrainingConfig]) -> None:
    batch = ConfigBatch.of(chosen)
    screened, result = screen(posed, batch), estimate(posed, batch)
    np.testing.assert_array_equal(screened.allocated_bytes, result.allocated_bytes)
    np.testing.assert_array_equal(screened.device_bytes, result.device_bytes)


def _sharded(posed: TuningProblem, axis: str, size: int, optimizer: str) -> TrainingConfig:
    uneven = axis == "pipeline_parallel_size" and posed.model.num_layers % size > 0
    layout = "shorter-edges" if uneven else "even"
    return TrainingConfig.model_validate({axis: size, "optimizer": optimizer, "pipeline_layout": layout})


@given(
    problems(),
    st.sampled_from(("tensor_parallel_size", "pipeline_parallel_size", "expert_parallel_size")),
    st.sampled_from(("replicated", "distributed")),
)
def test_more_sharding_never_adds_weights_gradients_or_replicated_optimizer_states(
    posed: TuningProblem, axis: str, optimizer: str
) -> None:
    batch = ConfigBatch.of(_sharded(posed, axis, size, optimizer) for size in (1, 2, 4, 8))
    items = estimate(posed, batch).items
    counted = ["weights", "gradients", *(["optimizer"] if optimizer == "replicated" else [])]
    worst = np.sum([items[name] for name in counted], axis=0).max(axis=1)
    assert (np.diff(worst) <= 0).all()


@given(problems(), configs())
def test_a_larger_micro_batch_never_needs_less(posed: TuningProblem, config: TrainingConfig) -> None:
    batch = ConfigBatch.of(config.model_copy(update={"micro_batch_size": size}) for size in (1, 2, 4))
    # the micro batches of the step shrink with it, and with them the cap on those in flight
    plenty = posed.model_copy(update={"global_batch_size": 2**20})
    assert (np.diff(estimate(plenty, batch).allocated_bytes) >= 0).all()


@given(problems(), configs())
def test_recomputing_never_keeps_more_for_waiting_micro_batches(posed: TuningProblem, config: TrainingConfig) -> None:
    fused = posed.model_copy(update={"implementation": "transformer-engine", "backend": "primus"})
    plain = config.model_copy(update={"recompute_granularity": "none", "recompute_modules": ()})
    result = estimate(fused, ConfigBatch.of([plain, config]))
    kept = result.by_kind["activations"] - result.items["recomputed_unit"]
    assert (kept[1] <= kept[0] * (1 + 1e-12)).all()
