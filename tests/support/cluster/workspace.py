"""The temporary folder of one cluster or node, and what is left of those whose tests were killed.

A folder belongs to whoever holds the lock in it. The kernel drops the lock with its process, so a folder that can be
locked is a leftover; `host_cleanup.py` sweeps those.
"""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.cluster.errors import HarnessError
from tests.support.cluster.mounts import delete_folder

PREFIX = "tunewright-test-"
OWNER_LOCK = "owner.lock"


@dataclass
class Workspace:
    """A temporary folder held by this process."""

    folder: Path
    _lock: int

    @classmethod
    def create(cls) -> "Workspace":
        """Make a new folder and hold it."""
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        lock = try_lock(folder / "unnamed.lock")
        if lock is None:
            raise HarnessError(f"somebody else holds the new folder {folder}")
        # Held before it has its name: a sweep in between would take the folder for a leftover.
        (folder / "unnamed.lock").rename(folder / OWNER_LOCK)
        return cls(folder, lock)

    def make(self, *names: str) -> Path:
        """Make a folder inside and return it."""
        inside = self.folder.joinpath(*names)
        inside.mkdir(parents=True, exist_ok=True)
        return inside

    def remove(self) -> None:
        """Delete the folder and let go of it."""
        delete_folder(self.folder)
        os.close(self._lock)


def try_lock(file: Path) -> int | None:
    """Return a descriptor that holds the file alone, or None where another process holds it or deleted its folder."""
    try:
        descriptor = os.open(file, os.O_CREAT | os.O_RDWR, 0o600)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def abandoned() -> Iterator[Path]:
    """Yield the folders whose owners are gone, each held while the caller works on it."""
    for folder in sorted(Path(tempfile.gettempdir()).glob(f"{PREFIX}*")):
        if not _is_my_workspace(folder):
            continue
        lock = try_lock(folder / OWNER_LOCK)
        if lock is not None:
            try:
                yield folder
            finally:
                os.close(lock)


def _is_my_workspace(folder: Path) -> bool:
    try:
        return folder.stat().st_uid == os.getuid() and (folder / OWNER_LOCK).is_file()
    except FileNotFoundError:  # somebody else's sweep was quicker
        return False
