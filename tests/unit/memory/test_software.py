"""What a run's software changes, against figures derived by hand."""

from typing import Any

import pytest

from tests.unit.memory.examples import B200, H100, LLAMA_3_8B, MI355X, MIXTRAL_8X22B, architecture, problem
from tunewright.domain.config_batch import ConfigBatch
from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import TrainingConfig
from tunewright.memory import OPTIMIZER_PRECISIONS, Software, estimate

TOKENS = 4096
LAYERS, HIDDEN, HEADS = 22, 2304, 24
GPT = architecture(
    "gpt",
    LAYERS,
    HIDDEN,
    HEADS,
    HEADS,
    ffn_hidden_size=4 * HIDDEN,
    vocabulary_size=51200,
    gated_mlp=False,
    normalization="layernorm",
)
OLD = Software(flash_attention=False)
PLAIN = Software()
FSDP2: dict[str, Any] = {"optimizer": "fsdp2", "overlap_param_gather": False}


def items(posed: TuningProblem, software: Software = PLAIN, *, rank: int = 0, **config: Any) -> dict[str, float]:
    batch = ConfigBatch.of([TrainingConfig.model_validate(config)])
    return estimate(posed, batch, software=software).breakdown(0)[rank]


def test_without_flash_attention_a_gpt_layer_keeps_what_korthikanti_counts() -> None:
    posed = problem(GPT, 8, H100, sequence_length=1024)
    found = items(posed, OLD)
    statistics = 2 * 8 * 1024 * LAYERS  # the norms' mean and deviation, which the paper leaves out
    expected = LAYERS * 1024 * (34 * HIDDEN + 5 * HEADS * 1024)
    assert found["attention"] + found["mlp"] == expected + statistics


def test_recomputing_the_core_frees_all_that_grows_with_the_square_of_the_sequence() -> None:
    posed = problem(GPT, 8, H100, sequence_length=1024)
    whole = items(posed, OLD)
    lean = items(posed, OLD, recompute_granularity="selective", recompute_modules=("core_attn",))
    assert whole["attention"] - lean["attention"] == LAYERS * 1024 * 5 * HEADS * 1024


def test_weight_gradients_need_less_of_a_layer_that_keeps_its_scores() -> None:
    posed = problem(GPT, 8, H100, sequence_length=1024)
    pipeline: dict[str, Any] = {
        "pipeline_parallel_size": 2,
        "pipeline_layout": "11,11",
        "pipeline_schedule": "zero-bubble-h1",
    }
    held = {}
    for software in (OLD, PLAIN):
        delayed = items(posed, software, rank=1, **pipeline)["attention"]
        plain = items(posed, software, rank=1, **(pipeline | {"pipeline_schedule": "1f1b"}))["attention"]
        held[software.flash_attention] = delayed / plain - 1
    assert held[True] == pytest.approx(0.97)
    assert held[False] == pytest.approx(0.97 * 32 * HIDDEN / (34 * HIDDEN + 5 * HEADS * 1024), rel=0.01)


@pytest.mark.parametrize(
    ("name", "weights", "gradients", "optimizer"),
    [("", 2, 4, 12), ("bf16-moments", 2, 4, 6), ("bf16-grads+moments", 2, 2, 6)],
)
def test_bytes_a_parameter_by_optimizer_precision(name: str, weights: int, gradients: int, optimizer: int) -> None:
    found = items(problem(), OPTIMIZER_PRECISIONS[name])
    parameters = 8_030_261_248
    assert found["weights"] == weights * parameters
    assert found["gradients"] == gradients * parameters
    assert found["optimizer"] == optimizer * parameters / 8


def test_narrow_moments_are_widened_while_the_optimizer_steps_if_activations_took_less() -> None:
    posed = problem(MIXTRAL_8X22B, 8)
    software = OPTIMIZER_PRECISIONS["bf16-moments"]
    config: dict[str, Any] = {"expert_parallel_size": 8, "recompute_granularity": "full"}
    found = items(posed, software, **config)
    experts = 56 * 3 * 6144 * 16384
    kinds = ("activations", "logits", "communication", "workspace")
    result = estimate(posed, ConfigBatch.of([TrainingConfig.model_validate(config)]), software=software)
    changing = sum(result.kinds_of(0, 0)[kind] for kind in kinds)
    assert found["optimizer_step"] == pytest.approx(8 * experts - changing)
    assert items(posed, **config)["optimizer_step"] == 0


def test_half_precision_gradients_without_a_precision_aware_optimizer_are_copied() -> None:
    assert Software(gradient_bytes=2).step_bytes == 4
    assert OPTIMIZER_PRECISIONS["bf16-grads+moments"].step_bytes == 8
    assert Software().step_bytes == 0


def test_weights_in_fp8_alone_replace_the_bf16_values_of_linears() -> None:
    posed = problem(device=H100)
    beside, alone = (items(posed, Software(fp8_weights=flag), precision="fp8") for flag in (False, True))
    linear = 32 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336)
    assert beside["weights"] - alone["weights"] == 2 * linear
    assert beside["weight_casts"] == alone["weight_casts"] == 2 * linear


@pytest.mark.parametrize(
    ("backend", "in_place", "size"), [("primus", None, 2), ("megatron", None, 6), ("megatron", True, 2)]
)
def test_only_transformer_engines_fused_loss_writes_in_place(backend: str, in_place: bool | None, size: int) -> None:
    posed = problem(device=B200, backend=backend)
    assert items(posed, Software(in_place_loss=in_place))["logits"] == size * 128256 * TOKENS


def test_offloaded_activations_leave_the_chunk_at_work() -> None:
    config: dict[str, Any] = {
        "pipeline_parallel_size": 4,
        "virtual_pipeline_parallel_size": 2,
        "pipeline_schedule": "interleaved-1f1b",
    }
    found = items(problem(), Software(offloads_activations=True), **config)
    assert found["attention"] + found["mlp"] == 4 * 139_400 * TOKENS


class TestTorchtitan:
    def posed(self, **more: Any) -> TuningProblem:
        return problem(device=H100, backend="torchtitan", implementation="torch", **more)

    def test_weights_are_fp32_shards_that_adam_needs_no_copy_of(self) -> None:
        found = items(self.posed(), **FSDP2)
        parameters = 8_030_261_248
        assert found["weights"] == found["gradients"] == 4 * parameters / 8
        assert found["optimizer"] == 8 * parameters / 8

    def test_pipeline_ranks_keep_their_weights_gathered_and_their_gradients_whole(self) -> None:
        found = items(self.posed(), rank=1, pipeline_parallel_size=4, **FSDP2)
        parameters = 8 * 218_112_000
        assert found["gathered_weights"] == 2 * parameters
        assert found["unreduced_gradients"] == 4 * parameters

    @pytest.mark.parametrize(("compiled", "last"), [(False, 4096), (True, 0)])
    def test_selective_keeps_every_second_product(self, compiled: bool, last: int) -> None:
        config = {**FSDP2, "recompute_granularity": "selective"}
        found = items(self.posed(), Software(compiled_layers=compiled), **config)
        # input, query, attention's output, value, the MLP's first product and last; log-sum-exp in fp32
        elements = 4096 + 4096 + 4096 + 1024 + 14336 + last
        kept = 32 * TOKENS * (2 * elements + 4 * 32)
        assert found["attention"] + found["mlp"] == pytest.approx(kept, rel=1e-12)

    def test_full_keeps_the_inputs_of_layers(self) -> None:
        found = items(self.posed(), recompute_granularity="full", **FSDP2)
        assert found["recompute_inputs"] == 32 * TOKENS * 2 * 4096

    @pytest.mark.parametrize(("tensor", "size"), [(1, 12), (8, 16)])
    def test_a_loss_over_a_split_vocabulary_holds_one_copy_more(self, tensor: int, size: int) -> None:
        found = items(self.posed(), tensor_parallel_size=tensor, **FSDP2)
        padded = -(-128256 // (128 * tensor)) * 128 * tensor
        assert found["logits"] == size * padded / tensor * TOKENS


def test_eager_layers_run_backward_when_the_loss_is_gone() -> None:
    posed = problem(LLAMA_3_8B, 8, MI355X, implementation="torch")
    found = items(posed, recompute_granularity="full")
    assert found["logits"] == 12 * 128256 * TOKENS
    assert found["recomputed_unit"] == found["layer_gradients"] == 0
    first = items(posed, rank=0, pipeline_parallel_size=2, recompute_granularity="full")
    assert first["recomputed_unit"] > 0
    assert first["layer_gradients"] > 0
