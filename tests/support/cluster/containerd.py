"""containerd with everything it keeps inside the node's folder, and `ctr` on it.

Called by `node.py`. The machine's own containerd or Docker engine, where there is one, never hears of it.
"""

from dataclasses import dataclass
from pathlib import Path

from tests.support.cluster.commands import need_program, run, succeeds
from tests.support.cluster.waiting import wait_until

CONFIGURATION = """
version = 2
root = "{folder}/root"
state = "{folder}/state"
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs",
]
[grpc]
  address = "{folder}/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "{folder}/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{sandbox_image}"
  # Without the right to lower it, runc dies of "can't get final child's PID from pipe: EOF".
  restrict_oom_score_adj = true
  # Inside the folder, so that unmounting everything below it removes them too.
  netns_mounts_under_state_dir = true
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "{cni_programs}"
  conf_dir = "{cni_configuration}"
"""
CNI_PROGRAMS = Path("/usr/lib/cni")


@dataclass(frozen=True)
class Containerd:
    """One containerd; its folder holds the socket, the images and the running tasks."""

    folder: Path

    @property
    def socket(self) -> Path:
        """Return the socket that the kubelet and `ctr` talk to."""
        return self.folder / "containerd.sock"

    def command(self, sandbox_image: str, cni_configuration: Path) -> list[str]:
        """Write the configuration and return the command line."""
        configuration = self.folder / "config.toml"
        configuration.write_text(
            CONFIGURATION.format(
                folder=self.folder,
                sandbox_image=sandbox_image,
                cni_programs=CNI_PROGRAMS,
                cni_configuration=cni_configuration,
            )
        )
        return [need_program("containerd", "apt-get install containerd"), f"--config={configuration}"]

    def wait_ready(self) -> None:
        """Wait until it answers."""
        wait_until(lambda: succeeds(*self._ctr(), "version"), "containerd answers")

    def import_image(self, archive: Path) -> None:
        """Load a docker-archive under the name written in it."""
        run(*self._ctr(), "images", "import", archive)

    def tasks(self) -> list[str]:
        """Return the identifiers of the containers that run."""
        return run(*self._ctr(), "tasks", "list", "--quiet").split()

    def end_tasks(self) -> None:
        """End all containers, as far as containerd still answers; `host_cleanup.py` ends the rest."""
        if succeeds(*self._ctr(), "version"):
            for task in self.tasks():
                succeeds(*self._ctr(), "tasks", "delete", "--force", task)

    def _ctr(self) -> list[str]:
        return ["ctr", f"--address={self.socket}", "--namespace=k8s.io"]
