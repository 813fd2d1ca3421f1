"""Driver, power cap and co-tenants, read from a folder that looks like sysfs."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from tunewright_trial.device_state import driver_version, pci_address_of, power_cap_watts, processes_of_others

ADDRESS = "0000:05:00.0"


@pytest.fixture
def sysfs(tmp_path: Path) -> Path:
    files = {
        "module/amdgpu/version": "6.14.14\n",
        f"bus/pci/devices/{ADDRESS}/hwmon/hwmon3/power1_cap": "1400000000\n",
        "class/kfd/kfd/proc/4242/vram_1": "0\n",
        f"class/kfd/kfd/proc/{os.getpid()}/vram_1": "0\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_the_driver_says_its_version_and_the_cap(sysfs: Path) -> None:
    assert driver_version(sysfs) == "amdgpu 6.14.14"
    assert power_cap_watts(ADDRESS, sysfs) == 1400


def test_only_other_processes_are_co_tenants(sysfs: Path) -> None:
    assert processes_of_others(sysfs) == 1


def test_what_nobody_knows_is_zero_or_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # no vendor tool
    assert driver_version(tmp_path) == ""
    assert power_cap_watts(ADDRESS, tmp_path) == 0
    assert processes_of_others(tmp_path) == 0


@pytest.mark.parametrize(("printed", "watts"), [("700.00", 700), ("[N/A]", 0)])
def test_nvidias_limit_comes_from_its_tool(
    printed: str, watts: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\necho '{printed}'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert power_cap_watts(ADDRESS, tmp_path) == watts


def test_addresses_are_written_as_the_kernel_writes_them() -> None:
    properties = SimpleNamespace(pci_domain_id=0, pci_bus_id=0x85, pci_device_id=0)
    assert pci_address_of(properties) == "0000:85:00.0"
    assert pci_address_of(SimpleNamespace()) == ""
