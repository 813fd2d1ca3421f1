import pytest

from tests.unit.memory.examples import DEEPSEEK_V2_LITE, LLAMA_3_8B, problem
from tunewright.domain.config_batch import ConfigBatch
from tunewright.domain.model_architecture import ModelArchitecture
from tunewright.domain.training_config import TrainingConfig
from tunewright.memory import estimate

TOKENS = 4096
LAYER = 139_400 * TOKENS
INPUT = 2 * 4096 * TOKENS


def items(model: ModelArchitecture = LLAMA_3_8B, rank: int = 0, **config: object) -> dict[str, float]:
    return estimate(problem(model), ConfigBatch.of([TrainingConfig.model_validate(config)])).breakdown(0)[rank]


def layers_kept(found: dict[str, float]) -> float:
    return (found["attention"] + found["mlp"]) / LAYER


def test_without_recomputation_every_layer_is_kept_and_nothing_comes_back() -> None:
    found = items()
    assert layers_kept(found) == 32
    assert found["recompute_inputs"] == found["recomputed_unit"] == 0
    assert found["head"] == 2 * INPUT


@pytest.mark.parametrize(("layers", "units"), [(1, 32), (4, 8), (5, 7), (40, 1)])
def test_full_uniform_keeps_an_input_a_unit_and_brings_one_unit_back(layers: int, units: int) -> None:
    found = items(recompute_granularity="full", recompute_num_layers=layers)
    assert layers_kept(found) == 0
    assert found["recompute_inputs"] == units * INPUT
    assert found["recomputed_unit"] == min(layers, 32) * LAYER


@pytest.mark.parametrize(("layers", "unit"), [(8, 0), (31, 0), (32, 1), (99, 1)])
def test_full_block_keeps_the_other_layers_which_are_gone_when_a_unit_comes_back(layers: int, unit: int) -> None:
    found = items(recompute_granularity="full", recompute_method="block", recompute_num_layers=layers)
    assert layers_kept(found) == max(32 - layers, 0)
    assert found["recompute_inputs"] == min(layers, 32) * INPUT
    assert found["recomputed_unit"] == unit * LAYER


def test_block_counts_layers_of_each_virtual_chunk() -> None:
    found = items(
        rank=1,
        pipeline_parallel_size=2,
        virtual_pipeline_parallel_size=4,
        pipeline_schedule="interleaved-1f1b",
        recompute_granularity="full",
        recompute_method="block",
        recompute_num_layers=1,
    )
    in_flight = (2 * (2 - 1 - 1) + (4 - 1) * 2 + 1) / 4
    assert found["recompute_inputs"] == in_flight * 4 * INPUT
    assert layers_kept(found) == in_flight * (16 - 4)


def test_block_takes_leading_dense_layers_first() -> None:
    whole = items(DEEPSEEK_V2_LITE, expert_parallel_size=8)
    found = items(
        DEEPSEEK_V2_LITE,
        expert_parallel_size=8,
        recompute_granularity="full",
        recompute_method="block",
        recompute_num_layers=2,
    )
    assert whole["mlp"] > 0
    assert found["mlp"] == 0
    assert found["experts"] == whole["experts"] * 25 / 26


def test_selective_brings_one_layer_of_what_it_frees_back() -> None:
    found = items(recompute_granularity="selective", recompute_modules=("mlp",))
    freed = (2 * 4096 + 4 + 6 * 14336) * TOKENS
    assert found["recomputed_unit"] == freed
    assert items()["mlp"] - found["mlp"] == 32 * freed


def test_activations_wait_for_all_micro_batches_in_flight() -> None:
    first, last = (items(rank=rank, pipeline_parallel_size=4) for rank in (0, 3))
    assert layers_kept(first) == 4 * 8
    assert layers_kept(last) == 1 * 8
    assert (first["head"], last["head"]) == (0, 2 * INPUT)
