"""`make gpu-check` with the CPU in the device's place: what it runs on an accelerator works before one comes."""

import re
from pathlib import Path

from tests.gpu.profile_check import check_profile
from tests.unit.trial.requests import make_request
from tunewright.domain.training_config import TrainingConfig


async def test_the_check_of_a_device_holds_on_the_cpu(tmp_path: Path) -> None:
    _, lines = await check_profile(make_request().problem, TrainingConfig(precision="fp32"), tmp_path)
    assert "name='cpu'" in lines[0]
    assert re.fullmatch(r"fp32 forward \d+\.\d+ ms, model \d+\.\d+ ms", lines[1])
    kept, modelled = re.findall(r"\d+", lines[3])
    assert kept == modelled  # to the byte, in fp32
