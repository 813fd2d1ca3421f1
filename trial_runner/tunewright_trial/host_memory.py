"""How much memory this machine gives, and a bound on a process that makes running out of it an error, not a death.

Called by `rank` for CPU ranks, by `probe`, and by `entry` for what ranks share.
"""

import os
import resource
from pathlib import Path

from tunewright.trial_protocol.request import TrialRequest
from tunewright_trial.failures import TrialFailure

SHARED_MEMORY = Path("/dev/shm")
LEAST_SHARED_BYTES = 9_637_888
"""One segment of NCCL and RCCL: "Error while creating shared memory segment nccl-shm-… (size 9637888)", as in
github.com/NVIDIA/nccl issue 525. With less, ranks that share memory cannot meet; NCCL_SHM_DISABLE=1 does without."""
_CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def memory_bytes() -> int:
    """Return the memory of the machine, or of the container's limit where that is smaller."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = [path.read_text(encoding="ascii").strip() for path in _CGROUP_LIMITS if path.exists()]
    return min([physical, *(int(limit) for limit in limits if limit.isascii() and limit.isdecimal())])


def bound_memory(limit_bytes: int) -> None:
    """Refuse this process more than `limit_bytes` of private memory.

    Linux grants more than it has and kills whoever uses it; a GPU's allocator says no. With the bound a CPU does too.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    allowed = limit_bytes if hard == resource.RLIM_INFINITY else min(limit_bytes, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (allowed, hard))


def check_shared_memory(request: TrialRequest, folder: Path = SHARED_MEMORY) -> None:
    """Raise `TrialFailure` where ranks on accelerators find too little shared memory. gloo, on CPUs, needs none."""
    alone = request.device.vendor == "cpu" or request.processes_per_node == 1
    if alone or os.environ.get("NCCL_SHM_DISABLE") == "1":
        return
    try:
        found = os.statvfs(folder)
        free, reason = found.f_bavail * found.f_frsize, ""
    except OSError as error:
        free, reason = 0, f" ({error.strerror})"
    if free < LEAST_SHARED_BYTES:
        needed = f"{LEAST_SHARED_BYTES} are the least for {request.processes_per_node} ranks"
        raise TrialFailure(
            "RcclFailure", f"too little shared memory, give {folder} more: {free} bytes{reason}, {needed}"
        )
