"""Makes printing safe: closed streams, terminals without our signs, full disks. Called by `entry` and `app`.

`prepare_streams` comes before anything prints or opens a file; `drop_unwritable` after something could not be printed.
"""

import io
import os
import sys
from typing import Any, TextIO

_OUTPUT, _ERROR = 1, 2


class _Watched(io.FileIO):
    """A standard stream that remembers whether writing to it failed: an `OSError` does not say where it is from."""

    has_failed = False

    def write(self, data: Any, /) -> int:  # noqa: ANN401 - any buffer
        """Write what can be written at once."""
        try:
            return super().write(data)
        except OSError:
            self.has_failed = True
            raise


def prepare_streams() -> None:
    """Give the process the streams that its caller closed, and let every sign be printed in every encoding."""
    _reserve_standard_numbers()
    sys.stdout = _usable(sys.stdout, _OUTPUT)
    sys.stderr = _usable(sys.stderr, _ERROR)


def drop_unwritable() -> list[str]:
    """Point each standard stream that cannot be written at nothing, so that the end does not fail again; name them."""
    streams = {"standard output": sys.stdout, "standard error": sys.stderr}
    return [name for name, stream in streams.items() if _drop(stream)]


def _reserve_standard_numbers() -> None:
    """Otherwise the first file that is opened gets the number of a closed stream, and what is printed."""
    number = os.open(os.devnull, os.O_RDWR)
    while number <= _ERROR:
        number = os.open(os.devnull, os.O_RDWR)
    os.close(number)


def _usable(stream: TextIO | None, number: int) -> TextIO:
    """Return a stream of its own for a standard number; one that a caller in this process put there stays."""
    if stream is not None and not isinstance(stream, io.TextIOWrapper):
        return stream
    if stream is not None:
        stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(_Watched(number, "w", closefd=False)),
        encoding=stream.encoding if stream else "utf-8",
        errors="backslashreplace",
        line_buffering=number == _ERROR or (stream is not None and (stream.line_buffering or stream.write_through)),
    )


def _drop(stream: TextIO) -> bool:
    raw = stream.buffer.raw if isinstance(stream, io.TextIOWrapper) else None
    if not isinstance(raw, _Watched) or not raw.has_failed:
        return False
    os.dup2(os.open(os.devnull, os.O_WRONLY), raw.fileno())
    stream.flush()
    return True
