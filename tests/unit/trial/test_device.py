"""The devices that a trial finds, beside the preset; and the environment that its log names."""

import re
from types import SimpleNamespace
from typing import Any

import pytest

from tunewright.trial_protocol.request import ExpectedDevice
from tunewright_trial.device import check_accelerators, environment_lines, select_device
from tunewright_trial.failures import TrialFailure

MI300X = {"total_memory": 206_000_000_000, "gcnArchName": "gfx942:sramecc+:xnack-", "major": 9, "minor": 4}


PARTITIONED = {**MI300X, "total_memory": 25_700_000_000}


@pytest.mark.parametrize(
    ("found", "count", "words"),
    [
        (MI300X, 8, ""),
        ({**MI300X, "gcnArchName": "gfx950"}, 8, "device 0 has architecture gfx950, expected gfx942"),
        (MI300X, 4, "8 devices expected, 4 visible"),
        (PARTITIONED, 64, "partition mode?"),
    ],
    ids=["right", "architecture", "count", "partition"],
)
def test_devices_are_compared_with_the_preset(
    found: dict[str, Any], count: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.version.hip", "7.0")
    monkeypatch.setattr("torch.cuda.device_count", lambda: count)
    monkeypatch.setattr("torch.cuda.get_device_properties", lambda _: SimpleNamespace(**found))
    expected = ExpectedDevice(
        preset="mi300x", vendor="amd", architecture="gfx942", count=8, hbm_capacity_bytes=206_158_430_208
    )
    if not words:
        check_accelerators(expected)
        return
    with pytest.raises(TrialFailure, match=re.escape(words)) as failure:
        check_accelerators(expected)
    assert failure.value.failure == "DeviceMismatch"


def test_a_preset_of_another_vendor_is_a_device_mismatch() -> None:
    expected = ExpectedDevice(preset="mi355x", vendor="amd", architecture="no-such", count=1)
    with pytest.raises(TrialFailure) as failure:
        select_device(expected, 0)
    assert failure.value.failure == "DeviceMismatch"


def test_the_log_names_the_variables_that_matter_and_no_others() -> None:
    variables = {"NCCL_IB_HCA": "mlx5", "HF_TOKEN": "secret", "OMP_NUM_THREADS": "1"}
    assert environment_lines(variables) == ["NCCL_IB_HCA=mlx5", "OMP_NUM_THREADS=1"]
