"""What a published row's columns say about the memory of its software."""

import pytest

from tests.unit.memory.examples import DEEPSEEK_V2_LITE, H100, LLAMA_3_8B, MI355X, problem
from tunewright.calibration.memory_stack import memory_software_of
from tunewright.domain.problem import TuningProblem
from tunewright.memory.software import OPTIMIZER_PRECISIONS, Software

DENSE = problem(LLAMA_3_8B, 8, H100)
LATENT_EXPERTS = problem(DEEPSEEK_V2_LITE, 8, H100)


@pytest.mark.parametrize(
    ("row", "posed", "expected"),
    [
        ({"software": "primus"}, DENSE, Software(in_place_loss=True)),
        (
            {"gpu": "A100-80GB", "precision": "bf16/fp16"},
            DENSE,
            Software(flash_attention=False, in_place_loss=False, gradient_bytes=2),
        ),
        (
            {"software": "torchtitan-compile"},
            DENSE,
            Software(compiled_layers=True, float32_weights=True, in_place_loss=True),
        ),
        ({"software": "torchtitan-eager"}, DENSE, Software(float32_weights=True, in_place_loss=True)),
        ({"software": "nemo-26.06"}, DENSE, Software(gradient_bytes=2, fp8_weights=True, in_place_loss=True)),
        ({"software": "mlperf-5.1"}, problem(LLAMA_3_8B, 8, MI355X), Software(in_place_loss=True)),
        (
            {"software": "megatron-bridge"},
            LATENT_EXPERTS,
            Software(gradient_bytes=2, master_bytes=2, moment_bytes=2, in_place_loss=True),
        ),
        ({"software": "megatron-bridge"}, DENSE, Software(in_place_loss=True)),
        (
            {"software": "megatron-moe-modelzoo", "source_note": "HybridEP; activation offload"},
            DENSE,
            Software(offloads_activations=True, in_place_loss=True),
        ),
    ],
    ids=lambda value: value.get("software") or "paper" if isinstance(value, dict) else "",
)
def test_software_follows_from_release_recipe_and_number_format(
    row: dict[str, str], posed: TuningProblem, expected: Software
) -> None:
    software, _ = memory_software_of(row, posed)
    assert software == expected


def test_a_stated_optimizer_precision_wins_and_needs_no_note() -> None:
    software, notes = memory_software_of({"software": "primus", "optimizer_precision": "bf16-moments"}, LATENT_EXPERTS)
    assert (software.master_bytes, software.moment_bytes, software.gradient_bytes) == (2, 2, 4)
    assert software.step_bytes == OPTIMIZER_PRECISIONS["bf16-moments"].step_bytes
    assert notes == ()


def test_what_no_column_states_is_noted() -> None:
    _, notes = memory_software_of({"software": "megatron-bridge"}, LATENT_EXPERTS)
    assert notes == ("optimizer not stated: bf16 gradients and moments",)
