"""The control groups of the node's Pods: emptied and removed when a node is gone, for cgroup v1 and v2.

Called by `host_cleanup.py`. A node refuses to start beside another kubelet, so `kubepods` is never somebody else's.
"""

import os
import signal
from functools import partial
from pathlib import Path

from tests.support.cluster.waiting import wait_until

ROOT = Path("/sys/fs/cgroup")


def kubepods() -> list[Path]:
    """Return the top group of all Pods in each hierarchy."""
    return [path for path in (ROOT / "kubepods", *ROOT.glob("*/kubepods")) if path.is_dir()]


def remove_kubepods() -> None:
    """Kill what still runs in Pods and remove their groups."""
    for top in kubepods():
        wait_until(partial(_removed, top), f"{top} is removed", timeout=30)


def _removed(top: Path) -> bool:
    """A group can be removed only when its last process has been reaped, which takes a moment after the signal."""
    for group, _, _ in os.walk(top, topdown=False):
        _kill_members(Path(group))
        try:
            os.rmdir(group)
        except OSError:
            continue
    return not top.exists()


def _kill_members(group: Path) -> None:
    try:
        members = (group / "cgroup.procs").read_text().split()
    except OSError:
        return
    for member in members:
        try:
            os.kill(int(member), signal.SIGKILL)
        except ProcessLookupError:
            continue
