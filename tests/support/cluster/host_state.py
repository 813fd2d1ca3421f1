"""What a node changes on its host, noted before it starts so that anybody can undo it later.

`Node` writes the note into its folder; `host_cleanup.py` reads it, in the same process or after that one was killed.
"""

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

NOTE = "host-state.json"
# The kubelet sets the kernel's to its taste, the bridge plugin and kube-proxy the network's.
SYSCTLS = (
    "kernel/keys/root_maxbytes",
    "kernel/keys/root_maxkeys",
    "kernel/panic",
    "kernel/panic_on_oops",
    "net/ipv4/conf/all/route_localnet",
    "net/ipv4/ip_forward",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
)
# Places that containerd and the kubelet make whatever their configuration says.
HOST_FOLDERS = (
    "/etc/cni",
    "/opt/cni",
    "/opt/containerd",
    "/run/containerd",
    "/run/containers",
    "/var/lib/cni",
    "/var/lib/containers",
    "/var/lib/kubelet",
    "/var/log/containers",
    "/var/log/pods",
)


@dataclass(frozen=True)
class HostState:
    """The host before the node: kernel settings, folders that did not exist, and the name of the node's bridge."""

    sysctls: dict[str, str]
    absent_folders: list[str]
    bridge: str

    @classmethod
    def take(cls, bridge: str) -> "HostState":
        """Look at the host as it is now."""
        present = [name for name in SYSCTLS if _sysctl(name).exists()]
        return cls(
            sysctls={name: _sysctl(name).read_text().strip() for name in present},
            absent_folders=[name for name in HOST_FOLDERS if not Path(name).exists()],
            bridge=bridge,
        )

    def note(self, folder: Path) -> None:
        """Write this down in a node's folder."""
        (folder / NOTE).write_text(json.dumps(asdict(self)))

    @classmethod
    def noted(cls, folder: Path) -> "HostState | None":
        """Return what a folder's node wrote down; None for a control plane's folder."""
        file = folder / NOTE
        return cls(**json.loads(file.read_text())) if file.exists() else None

    def restore(self) -> None:
        """Set the kernel back and delete the folders that were not there."""
        for name, value in self.sysctls.items():
            if _sysctl(name).read_text().strip() != value:
                _sysctl(name).write_text(value)
        for name in self.absent_folders:
            shutil.rmtree(name, ignore_errors=True)


def _sysctl(name: str) -> Path:
    return Path("/proc/sys") / name
