"""Where each rank is, so that the watchdog can say who hangs in what. Written by `measure` and `profile`, read by the
`supervisor`.

A rank overwrites one short line in a file of its own: nobody is woken by it, and a rank that hangs needs not answer.
"""

import os
from pathlib import Path

from tunewright_trial.place import Place

_LINE_BYTES = 64
BEFORE = "start"


class Progress:
    """The line of one rank: how many phases it began, and the name of the last."""

    def __init__(self, place: Place) -> None:
        self._file = os.open(place.progress_file, os.O_CREAT | os.O_WRONLY, 0o600)
        self._begun = 0

    def enter(self, phase: str) -> None:
        """Say that `phase` begins."""
        self._begun += 1
        os.pwrite(self._file, f"{self._begun} {phase}".ljust(_LINE_BYTES)[:_LINE_BYTES].encode(), 0)


def progress_of(place: Place) -> tuple[int, str]:
    """Return how many phases the rank of `place` began and the last one's name."""
    try:
        begun, _, phase = Path(place.progress_file).read_text(encoding="utf-8").partition(" ")
        return int(begun), phase.strip()
    except (OSError, ValueError):
        return 0, BEFORE
