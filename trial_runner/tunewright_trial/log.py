"""The log that people read: standard error. Used by every process of a trial, instead of `sys.stderr`.

Nothing depends on it: where it cannot be written (a full volume, a reader that is gone), the trial goes on.
"""

import os

STANDARD_INPUT, _STANDARD_ERROR = 0, 2
_STREAMS = 3


def say(text: str) -> None:
    """Write `text` as a line of its own, in one piece where that is possible: all ranks write there."""
    rest = f"{text}\n".encode(errors="backslashreplace")
    try:
        while rest:
            rest = rest[os.write(_STANDARD_ERROR, rest) :]
    except OSError:
        pass


def open_streams() -> None:
    """Give a program that was started without standard streams empty ones: the next file would get their number."""
    for number in range(_STREAMS):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
