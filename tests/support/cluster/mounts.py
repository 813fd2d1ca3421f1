"""Mounts inside a folder, and deleting a folder only when it has none: a deletion would go through them.

Called by `workspace.py` and `host_cleanup.py`.
"""

import shutil
from pathlib import Path

from tests.support.cluster.commands import succeeds

MOUNTS = Path("/proc/self/mounts")


def mounts_below(folder: Path) -> list[str]:
    """Return the mount points in this folder, the innermost first; none where the system does not list any."""
    lines = MOUNTS.read_text().splitlines() if MOUNTS.exists() else []
    targets = [line.split()[1].encode().decode("unicode_escape") for line in lines]
    return sorted((target for target in targets if target.startswith(f"{folder}/")), reverse=True)


def unmount_below(folder: Path) -> None:
    """Detach every mount in this folder."""
    for target in mounts_below(folder):
        succeeds("umount", "--lazy", target)


def delete_folder(folder: Path) -> None:
    """Delete a folder, unless something is still mounted in it."""
    if not mounts_below(folder):
        shutil.rmtree(folder, ignore_errors=True)
