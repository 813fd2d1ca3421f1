"""Which runs want attention: keys without duplicates, delays, and a longer wait after each failure. Used by `loop`.

kopf drops the errors of event handlers and knows no retry, so its handlers only add keys here.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from tunewright.errors import TuningError

RETRY_SECONDS = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0)

_log = logging.getLogger(__name__)

Reconcile = Callable[[str], Awaitable[float | None]]
"""Bring one run a step further; return after how many seconds it wants to be seen again, or None."""


class WorkQueue:
    """A key is handed to one worker at a time; added meanwhile, it comes again afterwards."""

    def __init__(self) -> None:
        self._ready: asyncio.Queue[str] = asyncio.Queue()
        self._waiting: set[str] = set()
        self._active: set[str] = set()
        self._again: set[str] = set()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._failures: dict[str, int] = {}

    def add(self, key: str) -> None:
        """Ask for attention now."""
        self._cancel_timer(key)
        if key in self._active:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting.add(key)
            self._ready.put_nowait(key)

    def add_after(self, key: str, seconds: float) -> None:
        """Ask for attention later; the latest request counts."""
        self._cancel_timer(key)
        self._timers[key] = asyncio.get_running_loop().call_later(seconds, self.add, key)

    async def work(self, reconcile: Reconcile) -> None:
        """Reconcile keys until cancelled. An error is logged, and its key comes again after a growing delay."""
        while True:
            key = await self._ready.get()
            self._waiting.discard(key)
            self._active.add(key)
            try:
                delay = await self._attempt(key, reconcile)
            finally:
                self._active.discard(key)
            self._schedule(key, delay)

    async def _attempt(self, key: str, reconcile: Reconcile) -> float | None:
        try:
            delay = await reconcile(key)
        except TuningError as error:
            delay = self._next_delay(key)
            _log.warning("%s: %s: %s: again in %.0f s", key, type(error).__name__, error, delay)
            return delay
        except Exception:
            delay = self._next_delay(key)
            _log.exception("%s: the reconcile failed, again in %.0f s", key, delay)
            return delay
        self._failures.pop(key, None)
        return delay

    def _next_delay(self, key: str) -> float:
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        return RETRY_SECONDS[min(failures, len(RETRY_SECONDS) - 1)]

    def _schedule(self, key: str, delay: float | None) -> None:
        if key in self._again:
            self._again.discard(key)
            self.add(key)
        elif delay is not None:
            self.add_after(key, delay)

    def _cancel_timer(self, key: str) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
