"""What a published row's columns say about the speed of its software."""

import pytest

from tests.unit.memory.examples import H100, LLAMA_3_8B, problem
from tunewright.calibration.memory_stack import memory_software_of
from tunewright.calibration.stack import software_of
from tunewright.domain.training_config import TrainingConfig

DENSE = problem(LLAMA_3_8B, 8, H100)


@pytest.mark.parametrize(
    ("row", "gradient_bytes"),
    [
        ({"gpu": "A100-80GB", "precision": "fp16"}, 2),
        ({"gpu": "A100-80GB", "precision": "bf16/fp16"}, 2),
        ({"gpu": "A100-80GB", "precision": "bf16"}, 4),
        ({"gpu": "A100-80GB", "precision": "fp16", "software": "llm-foundry"}, 4),
        ({"gpu": "H100", "precision": "fp8", "software": "nemo-26.06"}, 4),
    ],
    ids=lambda value: " ".join(value.values()) if isinstance(value, dict) else "",
)
def test_only_megatron_under_fp16_reduces_gradients_in_half_precision(
    row: dict[str, str], gradient_bytes: float
) -> None:
    software, _ = software_of(row, DENSE, TrainingConfig())
    assert software.gradient_bytes == gradient_bytes


def test_an_old_row_has_one_gradient_width_for_memory_and_time() -> None:
    row = {"gpu": "A100-80GB", "precision": "fp16"}
    assert (
        memory_software_of(row, DENSE)[0].gradient_bytes == software_of(row, DENSE, TrainingConfig())[0].gradient_bytes
    )
