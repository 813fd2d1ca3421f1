"""The system clock, the only reader of time. Made by the controller and the command line."""

import time
from datetime import UTC, datetime


class SystemClock:
    """Timestamps by the wall clock; seconds from its time when this was made, and then by a clock that nobody sets.

    A wall clock that jumps, or is put right, would otherwise end trials and use up a run's duration.
    """

    def __init__(self) -> None:
        self._offset_seconds = time.time() - time.monotonic()

    def now(self) -> str:
        """Return the present with milliseconds, such as 2026-11-30T05:00:00.000Z."""
        return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def seconds(self) -> float:
        """Return seconds since the epoch; they never go back, and go on as fast as time does."""
        return self._offset_seconds + time.monotonic()
