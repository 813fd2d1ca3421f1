"""How much memory this machine gives, and a bound on a process that makes running out of it an error, not a death.

Called by `rank` for CPU ranks and by `probe`.
"""

import os
import resource
from pathlib import Path

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
