"""One node on a machine at a time: firewall chains and control groups have fixed names. Called by `node.py`."""

import fcntl
import os
import sys
import tempfile
from pathlib import Path

from tests.support.cluster.cgroups import kubepods
from tests.support.cluster.errors import MissingPart
from tests.support.cluster.host_cleanup import sweep
from tests.support.cluster.host_state import NOTE
from tests.support.cluster.iptables import has_kubernetes_chains
from tests.support.cluster.waiting import wait_until
from tests.support.cluster.workspace import PREFIX

WAIT_SECONDS = 3600


def acquire_node_lock() -> int:
    """Return a descriptor that holds the machine's one place for a node, once it is free and clean."""
    descriptor = os.open(Path(tempfile.gettempdir()) / "tunewright-node.lock", os.O_CREAT | os.O_RDWR, 0o600)
    if not _try(descriptor):
        print("waiting for another test run's node to end", file=sys.stderr)
        wait_until(lambda: _try(descriptor), "the machine's place for a node is free", WAIT_SECONDS, every=0.5)
    wait_until(_swept, "what a killed run's node left behind is cleaned up")
    if kubepods() or has_kubernetes_chains():
        os.close(descriptor)
        raise MissingPart("this machine has a kubelet already (a kubepods control group or KUBE- firewall chains)")
    return descriptor


def _swept() -> bool:
    """A killed run's watchdog may be at it already: then its folder cannot be held, only waited for."""
    sweep()
    return not any(Path(tempfile.gettempdir()).glob(f"{PREFIX}*/{NOTE}"))


def _try(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
