"""Which device a rank runs on, what it is, and whether it is the one that the run asked for. Called by `rank`."""

import platform
import socket
from collections.abc import Mapping

import torch

from tunewright.trial_protocol.report import DeviceFacts
from tunewright.trial_protocol.request import ExpectedDevice
from tunewright_trial.device_state import driver_version, pci_address_of, power_cap_watts, processes_of_others
from tunewright_trial.failures import TrialFailure

_TELLING = ("NCCL_", "RCCL_", "GLOO_", "HIP_", "HSA_", "ROCR_", "CUDA_", "TORCH_", "PYTORCH_", "OMP_", "MKL_", "NVTE_")
HBM_TOLERANCE = 0.1
"""Share by which the memory may differ from the preset: carve-outs of driver and ECC are smaller than this,
partition modes and other models of a family are farther away."""


def select_device(expected: ExpectedDevice, local_rank: int) -> torch.device:
    """Return the device of this rank; raise DeviceMismatch when the node has not what the preset says."""
    if expected.vendor == "cpu":
        _require(not torch.cuda.is_available(), "preset cpu expects no visible accelerator, but torch sees one")
        return torch.device("cpu")
    check_accelerators(expected)
    _require(local_rank < torch.cuda.device_count(), f"rank {local_rank} of this node has no device of its own")
    device = torch.device("cuda", local_rank)
    torch.cuda.set_device(device)
    return device


def check_accelerators(expected: ExpectedDevice) -> None:
    """Compare vendor, architecture, count and memory of the visible devices with the preset."""
    _require(torch.cuda.is_available(), f"preset {expected.preset} expects an accelerator, torch sees none")
    vendor = "amd" if torch.version.hip else "nvidia"
    _require(vendor == expected.vendor, f"preset {expected.preset} expects vendor {expected.vendor}, found {vendor}")
    count = torch.cuda.device_count()
    _require(count >= expected.count, f"{expected.count} devices expected, {count} visible")
    for index in range(expected.count):
        _check_one(expected, index)


def _check_one(expected: ExpectedDevice, index: int) -> None:
    properties = torch.cuda.get_device_properties(index)
    found = architecture_of(properties)
    wanted = expected.architecture
    _require(not wanted or found == wanted, f"device {index} has architecture {found}, expected {wanted}")
    capacity = expected.hbm_capacity_bytes
    close = abs(properties.total_memory - capacity) <= HBM_TOLERANCE * capacity
    _require(
        not capacity or close,
        f"device {index} has {properties.total_memory} bytes of memory, expected {capacity} (partition mode?)",
    )


def architecture_of(properties: object) -> str:
    """Return gfx950, sm_90, ... of torch's device properties."""
    name = str(getattr(properties, "gcnArchName", ""))
    if torch.version.hip and name:
        return name.split(":")[0]
    return f"sm_{getattr(properties, 'major', 0)}{getattr(properties, 'minor', 0)}"


def facts_of(device: torch.device) -> DeviceFacts:
    """Describe where this rank runs."""
    host = socket.gethostname()[:80]
    version = str(torch.__version__)[:40]
    if device.type != "cuda":
        return DeviceFacts(name="cpu", count=1, host=host, torch_version=version, runtime=platform.platform()[:80])
    properties = torch.cuda.get_device_properties(device)
    return DeviceFacts(
        name=properties.name[:80],
        architecture=architecture_of(properties)[:40],
        count=torch.cuda.device_count(),
        memory_bytes=properties.total_memory,
        host=host,
        torch_version=version,
        runtime=_runtime(),
        clock_megahertz=_clock(device),
        power_cap_watts=power_cap_watts(pci_address_of(properties)),
        co_tenants=_co_tenants(device),
    )


def _runtime() -> str:
    """Return the versions below torch: device runtime, collectives and kernel driver."""
    runtime = f"hip {torch.version.hip}" if torch.version.hip else f"cuda {torch.version.cuda}"
    collectives = ".".join(map(str, torch.cuda.nccl.version()))
    versions = [runtime, f"{'rccl' if torch.version.hip else 'nccl'} {collectives}", driver_version()]
    return ", ".join(filter(None, versions))[:80]


_NO_LIBRARY = (ImportError, ModuleNotFoundError, RuntimeError, AttributeError)
"""What torch raises where the vendor's management library is not installed."""


def _clock(device: torch.device) -> int:
    try:
        return int(torch.cuda.clock_rate(device))
    except _NO_LIBRARY:
        return 0


def _co_tenants(device: torch.device) -> int:
    try:
        return max(len(torch.cuda.list_gpu_processes(device).splitlines()) - 1, 0)
    except _NO_LIBRARY:
        return processes_of_others()


def environment_lines(environment: Mapping[str, str]) -> list[str]:
    """Return the variables that change what a trial computes or how fast, for the log."""
    return [f"{name}={value}" for name, value in sorted(environment.items()) if name.startswith(_TELLING)]


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise TrialFailure("DeviceMismatch", message)
