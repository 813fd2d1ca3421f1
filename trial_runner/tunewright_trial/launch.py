"""The function that a rank's process starts with. Apart from `rank`, so that the supervisor need not import torch."""

import os
import signal
import threading
from multiprocessing.connection import Connection

from tunewright_trial.place import Place


def start_rank(request_text: str, place: Place, supervisor: Connection, lifeline: Connection) -> None:
    """Import the rank's module (the fork server already has) and run it.

    The supervisor holds the other end of `lifeline` and never writes: its end means that the supervisor is gone.
    """
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for number in (signal.SIGINT, signal.SIGHUP):  # of a terminal, which sends them to the supervisor as well
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(lifeline,), daemon=True).start()
    from tunewright_trial.rank import run_rank

    run_rank(request_text, place, supervisor)


def _end_with(lifeline: Connection) -> None:
    """Wait for the end of the supervisor, even of a killed one, and end this rank."""
    try:
        lifeline.recv_bytes()
    except (EOFError, OSError):
        os._exit(1)
