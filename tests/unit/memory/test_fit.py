import pytest

from tests.unit.memory.examples import H100, LLAMA_3_8B, LLAMA_3_70B, problem
from tunewright.domain.config_batch import ConfigBatch
from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import TrainingConfig
from tunewright.memory import estimate, fit
from tunewright.memory.fit import FitVerdict


def judged(posed: TuningProblem, *configs: TrainingConfig) -> FitVerdict:
    return fit(posed, estimate(posed, ConfigBatch.of(configs)))


def with_capacity(posed: TuningProblem, capacity_bytes: float) -> TuningProblem:
    device = posed.cluster.accelerator.model_copy(update={"hbm_capacity_bytes": int(capacity_bytes)})
    return posed.model_copy(update={"cluster": posed.cluster.model_copy(update={"accelerator": device})})


def allocation(posed: TuningProblem, which: str = "allocated_bytes") -> float:
    return float(getattr(judged(posed, TrainingConfig()).estimate, which)[0])


@pytest.mark.parametrize(
    ("allocated_over_capacity", "fits", "tight"),
    [(0.5, True, False), (0.97, True, True), (0.979, True, True), (0.981, False, False), (1.2, False, False)],
)
def test_the_margin_filters_and_another_margin_is_tight(
    allocated_over_capacity: float, fits: bool, tight: bool
) -> None:
    posed = problem(LLAMA_3_8B, memory_safety_margin_percent=2)
    verdict = judged(with_capacity(posed, allocation(posed) / allocated_over_capacity), TrainingConfig())
    assert (bool(verdict.fits[0]), bool(verdict.tight[0]), bool(verdict.filtered[0])) == (fits, tight, not fits)


def test_a_device_level_overflow_is_tight_although_the_allocation_is_far_from_the_limit() -> None:
    posed = problem(LLAMA_3_8B, memory_safety_margin_percent=0)
    between = (allocation(posed) + allocation(posed, "device_bytes")) / 2
    verdict = judged(with_capacity(posed, between), TrainingConfig())
    assert verdict.fits[0]
    assert verdict.tight[0]


def test_a_misfit_names_its_items_the_limit_and_a_remedy() -> None:
    posed = problem(LLAMA_3_70B, 8, H100)
    message = judged(posed, TrainingConfig(tensor_parallel_size=8)).message(0)
    assert message.startswith("does not fit: rank 0 of the pipeline allocates ")
    assert "weights 16.4 GiB" in message
    assert "more than 77.6 GiB of 79.2 GiB" in message
    assert message.endswith(
        "use the distributed optimizer, more nodes, or more tensor, pipeline or expert parallel ranks"
    )


def test_the_remedy_follows_the_largest_kind() -> None:
    posed = problem(LLAMA_3_8B, 8, H100)
    long = judged(posed, TrainingConfig(micro_batch_size=16)).message(0)
    assert "recompute (selective, then full)" in long


def test_a_fit_says_what_the_device_will_show() -> None:
    message = judged(problem(LLAMA_3_8B), TrainingConfig()).message(0)
    assert message.startswith("fits: ")
    assert "used on the device" in message


def test_items_in_the_message_add_up_to_the_allocation() -> None:
    posed = problem(LLAMA_3_70B, 64)
    verdict = judged(posed, TrainingConfig(tensor_parallel_size=8, pipeline_parallel_size=4))
    kinds = verdict.estimate.kinds_of(0, int(verdict.estimate.worst_rank[0]))
    allocated = sum(size for kind, size in kinds.items() if kind not in ("slack", "context"))
    assert allocated == pytest.approx(float(verdict.estimate.allocated_bytes[0]), rel=1e-12)
