"""What a machine needs for a node, checked before anything is started. Called by `node.py`."""

import os
import shutil
import sys

from tests.support.cluster.containerd import CNI_PROGRAMS
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.errors import MissingPart

INSTALL = "run tests/cluster/install-packages.sh as root"
PROGRAMS = ("containerd", "ctr", "runc", "iptables", "conntrack", "ip", "debootstrap", "buildah")


def check_node_requirements(cluster: ControlPlane) -> str:
    """Return the address for a node on this machine, or say all that is missing for one."""
    if sys.platform != "linux" or os.geteuid() != 0:
        raise MissingPart("a real kubelet needs root on Linux: run these tests as root")
    search = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    missing = [name for name in PROGRAMS if shutil.which(name, path=search) is None]
    if not CNI_PROGRAMS.is_dir():
        missing.append("containernetworking-plugins")
    if missing:
        raise MissingPart(f"a real kubelet needs {', '.join(missing)}: {INSTALL}")
    if cluster.node_address is None:
        raise MissingPart("a real kubelet needs a global IPv4 address on this machine")
    return cluster.node_address
