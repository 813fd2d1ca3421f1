"""What the machine says of an accelerator outside torch: driver, power cap, processes on it. Called by `device`.

AMD's kernel driver tells it in sysfs, without a library; NVIDIA's power limit comes from its command-line tool.
"""

import os
import shutil
import subprocess
from pathlib import Path

SYSFS = Path("/sys")
_DRIVERS = ("amdgpu", "nvidia")
_TOOL_SECONDS = 10
_MICRO = 1_000_000


def driver_version(sysfs: Path = SYSFS) -> str:
    """Return name and version of the accelerators' kernel driver, empty where it does not say."""
    for name in _DRIVERS:
        version = _text(sysfs / "module" / name / "version")
        if version:
            return f"{name} {version}"
    return ""


def power_cap_watts(pci_address: str, sysfs: Path = SYSFS) -> int:
    """Return the power cap of the device at `pci_address` (0000:05:00.0), 0 where nobody knows it."""
    for file in sorted((sysfs / "bus/pci/devices" / pci_address / "hwmon").glob("hwmon*/power1_cap")):
        microwatts = _text(file)
        if microwatts.isdecimal():
            return int(microwatts) // _MICRO
    return _nvidia_power_limit(pci_address)


def processes_of_others(sysfs: Path = SYSFS) -> int:
    """Return how many processes besides this one hold AMD devices of this node open."""
    folder = sysfs / "class/kfd/kfd/proc"
    try:
        return sum(entry.name.isdecimal() and int(entry.name) != os.getpid() for entry in folder.iterdir())
    except OSError:
        return 0


def _nvidia_power_limit(pci_address: str) -> int:
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return 0
    query = [tool, "--query-gpu=power.limit", "--format=csv,noheader,nounits", f"--id={pci_address}"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=_TOOL_SECONDS, check=True)
        return round(float(done.stdout.strip()))
    except (OSError, subprocess.SubprocessError, ValueError):
        return 0


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


def pci_address_of(properties: object) -> str:
    """Return the address of a device from torch's properties, empty in versions of torch that lack them."""
    bus = getattr(properties, "pci_bus_id", None)
    if bus is None:
        return ""
    domain, device = getattr(properties, "pci_domain_id", 0), getattr(properties, "pci_device_id", 0)
    return f"{domain:04x}:{bus:02x}:{device:02x}.0"
