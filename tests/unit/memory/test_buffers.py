"""Logits, dispatch buffers, weight casts and backward buffers against figures derived by hand."""

import pytest

from tests.unit.memory.examples import (
    B200,
    CPU,
    DEEPSEEK_V2_LITE,
    LLAMA_3_8B,
    MI355X,
    MIXTRAL_8X22B,
    architecture,
    problem,
)
from tunewright.backends import primus
from tunewright.domain.config_batch import ConfigBatch
from tunewright.domain.hardware import Accelerator
from tunewright.domain.model_architecture import MixtureOfExperts, ModelArchitecture
from tunewright.domain.routing import token_copies
from tunewright.domain.training_config import TrainingConfig
from tunewright.memory import estimate
from tunewright.units import GIB

TOKENS = 4096


def items(
    model: ModelArchitecture = LLAMA_3_8B,
    *,
    rank: int = 0,
    ranks: int = 8,
    device: Accelerator = MI355X,
    posed: dict[str, object] | None = None,
    **config: object,
) -> dict[str, float]:
    batch = ConfigBatch.of([TrainingConfig.model_validate(config)])
    return estimate(problem(model, ranks, device, **(posed or {})), batch).breakdown(0)[rank]


@pytest.mark.parametrize(
    ("implementation", "precision", "fused", "bytes_per_logit"),
    [
        ("transformer-engine", "bf16", True, 2),
        ("transformer-engine", "bf16", False, 6),
        ("transformer-engine", "fp32", True, 4),
        ("transformer-engine", "fp32", False, 8),
        ("torch", "bf16", True, 12),
        ("torch", "fp32", False, 12),
    ],
)
def test_logits_cost_what_their_loss_needs(
    implementation: str, precision: str, fused: bool, bytes_per_logit: int
) -> None:
    found = items(posed={"implementation": implementation}, precision=precision, cross_entropy_fusion=fused)
    assert found["logits"] == bytes_per_logit * 128256 * TOKENS


def test_logits_use_the_vocabulary_padded_for_the_tensor_split() -> None:
    assert items(tensor_parallel_size=8)["logits"] == 2 * 129024 // 8 * TOKENS


def test_logits_sit_on_the_last_rank_or_on_rank_zero_of_a_v_shape() -> None:
    assert items(rank=0, pipeline_parallel_size=4)["logits"] == 0
    assert items(rank=3, pipeline_parallel_size=4)["logits"] > 0
    for rank, has_logits in ((0, True), (3, False)):
        found = items(
            rank=rank,
            pipeline_parallel_size=4,
            virtual_pipeline_parallel_size=2,
            pipeline_schedule="zero-bubble-v",
        )
        assert (found["logits"] > 0) == has_logits


def test_delayed_weight_gradients_of_the_head_keep_logit_gradients() -> None:
    found = items(rank=3, pipeline_parallel_size=4, pipeline_schedule="zero-bubble-h1")
    assert found["waiting_logit_gradients"] == 3 * 2 * 128256 * TOKENS


def test_a_prediction_depth_adds_a_layer_a_projection_and_its_logit_gradients() -> None:
    model = LLAMA_3_8B.model_copy(update={"num_multi_token_prediction_layers": 1})
    plain, deeper = items(), items(model)
    layer = 218_112_000
    assert deeper["weights"] - plain["weights"] == 2 * (layer + 2 * 4096 * 4096 + 3 * 4096)
    assert deeper["logits"] == 2 * plain["logits"]


def test_all_to_all_holds_three_copies_of_the_routed_rows() -> None:
    found = items(DEEPSEEK_V2_LITE, expert_parallel_size=8)
    assert found["dispatch_transient"] == 3 * 6 * TOKENS * 2 * 2048
    assert found["dispatch_buffers"] == 0
    assert found["collectives"] == 20 * GIB


def test_without_expert_ranks_nothing_is_exchanged() -> None:
    found = items(MIXTRAL_8X22B)
    assert found["dispatch_transient"] == found["dispatch_buffers"] == found["collectives"] == 0


WIDE = architecture(
    "wide",
    2,
    7168,
    56,
    8,
    ffn_hidden_size=16384,
    vocabulary_size=128000,
    experts=MixtureOfExperts(num_experts=64, experts_per_token=6, expert_ffn_hidden_size=2048),
)


def test_deepep_buffers_are_a_third_of_a_gibibyte_at_the_published_width() -> None:
    found = items(WIDE, device=B200, expert_parallel_size=8, moe_dispatcher="deepep")
    assert found["dispatch_buffers"] == 10 * 8 * 256 * (2 * 7168 + 2048)
    assert found["dispatch_buffers"] / GIB == pytest.approx(0.31, abs=0.01)


def test_deepep_on_amd_has_the_channels_that_primus_launches_ask_for() -> None:
    found = items(WIDE, expert_parallel_size=8, moe_dispatcher="deepep")
    asked = primus.overrides(problem(WIDE), TrainingConfig(expert_parallel_size=8, moe_dispatcher="deepep"))[
        "turbo_deepep_num_cu"
    ]
    assert found["dispatch_buffers"] == asked / 2 * 8 * 256 * (2 * 7168 + 2048)


def test_deepep_between_nodes_adds_network_buffers() -> None:
    found = items(WIDE, ranks=16, device=B200, expert_parallel_size=16, moe_dispatcher="deepep")
    token = 2 * 7168 + 2048
    assert found["dispatch_buffers"] == 10 * 8 * 256 * token + 10 * 2 * 2 * 128 * token


def test_deepep_receives_a_token_once_per_rank_it_visits() -> None:
    batch = ConfigBatch.of(TrainingConfig(expert_parallel_size=size) for size in (1, 8, 64))
    assert WIDE.experts is not None
    assert token_copies(WIDE.experts, batch.expert_parallel_size).tolist() == pytest.approx([1, 4.54, 6], abs=0.005)
    found = items(WIDE, expert_parallel_size=8, moe_dispatcher="deepep")
    assert found["dispatch_transient"] == pytest.approx(4.54 * TOKENS * 2 * 7168, rel=0.002)


def test_sync_free_stage_two_receives_for_every_peer() -> None:
    found = items(WIDE, expert_parallel_size=8, moe_dispatcher="deepep", sync_free_stage=2)
    assert found["dispatch_transient"] == 8 * TOKENS * 2 * 7168


LINEAR_8B = 32 * (218_112_000 - 2 * 4096)


@pytest.mark.parametrize(
    ("precision", "device", "batch", "bytes_per_weight"),
    [
        ("bf16", MI355X, 512, 0),
        ("fp8", MI355X, 512, 2),
        ("fp8", B200, 512, 1),
        ("mxfp8", B200, 512, 2),
        ("fp8", MI355X, 8, 0),
    ],
)
def test_fp8_keeps_casts_of_linear_weights_over_the_micro_batches(
    precision: str, device: Accelerator, batch: int, bytes_per_weight: int
) -> None:
    found = items(device=device, posed={"global_batch_size": batch}, precision=precision)
    assert found["weight_casts"] == bytes_per_weight * LINEAR_8B


def test_fsdp_holds_two_whole_units_beside_its_shards() -> None:
    found = items(optimizer="fsdp2")
    layer, vocabulary = 218_112_000, 128256 * 4096
    assert found["gathered_weights"] == 2 * (layer + vocabulary)
    assert found["unreduced_gradients"] == 2 * vocabulary


def test_backward_holds_gradients_of_one_layer_and_of_its_weights() -> None:
    found = items()
    assert found["layer_gradients"] == 2 * TOKENS * (2 * 4096 + 3 * 14336)
    assert found["weight_gradient_buffers"] == 2 * (218_112_000 - 2 * 4096 + 128256 * 4096)


def test_with_a_tensor_split_the_gathered_input_is_whole() -> None:
    found = items(tensor_parallel_size=2)
    assert found["layer_gradients"] == 2 * TOKENS * ((2 * 4096 + 3 * 14336) / 2 + 4096)


def test_main_memory_has_no_overheads() -> None:
    found = items(device=CPU, posed={"implementation": "torch"})
    assert found["slack"] == found["context"] == found["workspace"] == 0
    assert found["allocated"] == found["device"]
