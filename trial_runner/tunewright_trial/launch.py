"""The function that a rank's process starts with. Apart from `rank`, so that the supervisor need not import torch."""

import ctypes
import signal
import sys
from multiprocessing.connection import Connection

from tunewright_trial.place import Place

_PR_SET_PDEATHSIG = 1


def start_rank(request_text: str, place: Place, supervisor: Connection) -> None:
    """Import the rank's module (the fork server already has) and run it."""
    _die_with_parent()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    from tunewright_trial.rank import run_rank

    run_rank(request_text, place, supervisor)


def _die_with_parent() -> None:
    """Ask the kernel to kill this rank when the fork server ends (Linux; elsewhere the broken pipe ends it)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
