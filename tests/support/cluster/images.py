"""The two images that everything else stands on: a pause program for sandboxes, and a Debian with Python.

Called by `node.py`; both are made on this machine once and kept in the cache.
"""

import os
import shutil
import tarfile
import tempfile
from pathlib import Path

from tests.support.cluster.binaries import ensure_pause_binary
from tests.support.cluster.commands import need_program, run
from tests.support.cluster.image_archive import write_image
from tests.support.cluster.paths import cache_root, digest_of, locked

PAUSE_IMAGE = "localhost/tunewright-pause:test"
BASE_IMAGE = "localhost/tunewright-base:test"
SUITE = "bookworm"
PACKAGES = ("ca-certificates", "python3", "python3-pip", "python3-venv")
# Nobody in a test reads them, and each Pod's start pays for them.
LEFT_OUT = ("dev", "proc", "usr/share/doc", "usr/share/man", "var/cache/apt", "var/lib/apt/lists")
SEARCH_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def pause_archive() -> Path:
    """Return the archive of the sandbox image."""
    program = ensure_pause_binary()
    with locked(program.parent):
        archive = program.parent / "image.tar"
        if not archive.exists():
            layer = program.parent / "layer.tar"
            with tarfile.open(layer, "w") as tar:
                tar.add(program, "pause")
            write_image(layer, PAUSE_IMAGE, {"Entrypoint": ["/pause"]}, archive)
            layer.unlink()
        return archive


def base_archive() -> Path:
    """Return the archive of the base image, fetching Debian's packages at the first call (half a minute)."""
    with locked(cache_root() / "images" / f"base-{digest_of(Path(__file__))}") as folder:
        archive = folder / "image.tar"
        if not archive.exists():
            layer = folder / "layer.tar"
            _write_debian(layer)
            write_image(layer, BASE_IMAGE, {"Env": [SEARCH_PATH], "Cmd": ["/bin/bash"]}, archive)
            layer.unlink()
        return archive


def _write_debian(layer: Path) -> None:
    debootstrap = need_program("debootstrap", "apt-get install debootstrap")
    root = Path(tempfile.mkdtemp(prefix="debian-", dir=layer.parent))
    try:
        # A mount namespace of its own: debootstrap leaves /proc mounted, through which a deletion would reach the host.
        packages = f"--include={','.join(PACKAGES)}"
        run("unshare", "--mount", debootstrap, "--variant=minbase", packages, SUITE, root, timeout=1800)
        # Official Python images call it `python`, and Pods that are not root pass through /root to a mounted venv.
        (root / "usr/local/bin/python").symlink_to("/usr/bin/python3")
        os.chmod(root / "root", 0o755)
        excluded = [f"--exclude=./{name}/*" for name in LEFT_OUT]
        run("tar", "--create", f"--file={layer}", f"--directory={root}", "--numeric-owner", *excluded, ".")
    finally:
        shutil.rmtree(root, ignore_errors=True)
