"""Undoing what a node does to its host: the last step of each stop, and the first step after a killed run.

Called by `Node.stop`, by `sweep` before a cluster starts, and by `watchdog.py` when pytest dies. Everything is found
through the node's own folder, so nothing of anybody else is touched.
"""

import os
import signal
from pathlib import Path

from tests.support.cluster.cgroups import remove_kubepods
from tests.support.cluster.commands import succeeds
from tests.support.cluster.host_state import HostState
from tests.support.cluster.iptables import remove_kubernetes_chains
from tests.support.cluster.mounts import delete_folder, unmount_below
from tests.support.cluster.workspace import abandoned


def sweep() -> None:
    """Clean up after runs that were killed."""
    for folder in abandoned():
        clean(folder)


def clean(folder: Path) -> None:
    """End what still runs out of this folder, undo what its node changed, and delete it."""
    end_processes_of(folder)
    state = HostState.noted(folder)
    if state is not None:
        remove_kubepods()
        unmount_below(folder)
        succeeds("ip", "link", "delete", state.bridge)
        remove_kubernetes_chains()
        state.restore()
    delete_folder(folder)


def end_processes_of(folder: Path) -> None:
    """Kill the processes whose command line names this folder, above all containerd's shims: they outlive it."""
    for entry in Path("/proc").glob("[0-9]*"):
        if int(entry.name) == os.getpid():
            continue
        try:
            words = (entry / "cmdline").read_bytes()
            if os.fsencode(f"{folder}/") in words:
                os.kill(int(entry.name), signal.SIGKILL)
        except OSError:  # ended by itself, or not ours
            continue
