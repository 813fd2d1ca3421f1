"""The system clock, the only reader of time. Made by the controller and the command line."""

import time
from datetime import UTC, datetime


class SystemClock:
    """Wall time in UTC."""

    def now(self) -> str:
        """Return the present with milliseconds, such as 2026-11-30T05:00:00.000Z."""
        return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def seconds(self) -> float:
        """Return seconds since the epoch."""
        return time.time()
