"""A small process beside pytest that cleans up a node when pytest dies without doing so.

`Node` starts it as `python -m tests.support.cluster.watchdog FOLDER` with a pipe: the kernel closes the pipe with its
owner, however that ended. After a proper stop the folder is gone, and there is nothing to do.
"""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.cluster.host_cleanup import clean, sweep
from tests.support.cluster.paths import REPOSITORY
from tests.support.cluster.waiting import wait_until
from tests.support.cluster.workspace import OWNER_LOCK, try_lock


class Watchdog:
    """The owner's end of the pipe."""

    def __init__(self, folder: Path) -> None:
        # The folder goes without a slash at its end, so that cleaning does not take the watchdog for a shim.
        command = [sys.executable, "-m", "tests.support.cluster.watchdog", str(folder)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, cwd=REPOSITORY, start_new_session=True)

    def dismiss(self) -> None:
        """Close the pipe and wait until the watchdog has seen that there is nothing to do."""
        self._process.communicate()


def main(folder: Path) -> None:
    """Wait for the owner's end, then clean its folder, unless the owner or the next run did."""
    sys.stdin.read()

    def settled() -> bool:
        if not folder.exists():
            return True
        lock = try_lock(folder / OWNER_LOCK)
        if lock is None:
            return False
        clean(folder)
        os.close(lock)
        return True

    wait_until(settled, f"{folder} is gone or free", timeout=120)
    sweep()  # the control plane's folder, whose processes died with their owner


if __name__ == "__main__":
    main(Path(sys.argv[1]))
