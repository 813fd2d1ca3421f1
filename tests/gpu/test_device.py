"""A real profile on an accelerator, when there is one: layer times against the roofline, memory against the model.

Run alone with `make gpu-check`; never needed for green.
"""

from pathlib import Path

import pytest

from tests.gpu.profile_check import check_profile
from tunewright.domain.catalog_loader import shipped_catalog
from tunewright.domain.hardware import Accelerator, Cluster
from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import Precision, TrainingConfig

pytestmark = pytest.mark.gpu
MOST_SECONDS = 60
"""Of one profile of a mid-size candidate, on one GPU."""


def preset_of_this_machine() -> Accelerator:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("NOTHING WAS CHECKED: no CUDA or ROCm device")
    name = torch.cuda.get_device_name(0).lower()
    catalog = shipped_catalog()
    found = [preset for preset in catalog.accelerators if preset.split("-")[0] in name.replace(" ", "")]
    if not found:
        pytest.skip(f"NOTHING WAS CHECKED: no preset for {name}")
    return catalog.accelerator(found[-1])


def problem_of_this_machine(accelerator: Accelerator) -> TuningProblem:
    return TuningProblem(
        model=shipped_catalog().model("llama-3-8b"),
        sequence_length=4096,
        global_batch_size=8,
        backend="builtin",
        implementation="torch",
        cluster=Cluster(
            nodes=1,
            gpus_per_node=1,
            accelerator=accelerator,
            network=shipped_catalog().default_network_for(accelerator.name),
        ),
    )


@pytest.mark.parametrize("precision", ["bf16", "fp8"])
async def test_a_profile_of_llama_3_8b_layers(
    precision: Precision, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = problem_of_this_machine(preset_of_this_machine())
    seconds, lines = await check_profile(problem, TrainingConfig(precision=precision), tmp_path)
    with capsys.disabled():
        print("", *lines, sep="\n")
    assert seconds < MOST_SECONDS
