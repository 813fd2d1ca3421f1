"""The operator's own tasks beside kopf: workers, the periodic resync, the heartbeat. Started by `handlers`."""

import asyncio
import logging
import os
from contextlib import AsyncExitStack

from tunewright.adapters.kube.client import connected
from tunewright.controller.probes import Heartbeat, ProbeServer
from tunewright.controller.reconcile import Reconciler
from tunewright.controller.settings import OperatorSettings
from tunewright.controller.wiring import Wiring
from tunewright.controller.workqueue import WorkQueue

_HEARTBEAT_SECONDS = 5.0

_log = logging.getLogger(__name__)


class OperatorLoop:
    """Everything that lives as long as the process."""

    def __init__(self, settings: OperatorSettings) -> None:
        self.queue = WorkQueue()
        self._settings = settings
        self._heartbeat = Heartbeat()
        self._tasks: list[asyncio.Task[None]] = []
        self._stack = AsyncExitStack()

    async def start(self) -> None:
        """Connect and start all tasks."""
        client = await self._stack.enter_async_context(connected())
        reconciler = Reconciler(client, Wiring(client, self._settings, os.environ))
        self._stack.push_async_callback(reconciler.close)
        if self._settings.probe_port:
            probes = ProbeServer(self._heartbeat, self._settings.probe_port)
            probes.start()
            self._stack.callback(probes.stop)
        workers = [self.queue.work(reconciler.reconcile) for _ in range(self._settings.workers)]
        forever = [*workers, self._beat(), self._resync(reconciler)]
        self._tasks = [asyncio.create_task(work) for work in forever]
        for task in self._tasks:
            task.add_done_callback(self._ended)

    async def stop(self) -> None:
        """End the tasks. There is no state to save: everything is in the cluster."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._stack.aclose()

    def _ended(self, task: asyncio.Task[None]) -> None:
        """None of the tasks ends by itself: let the probe fail, so that the process is started anew."""
        if not task.cancelled():
            _log.error("a task of the operator ended", exc_info=task.exception())
            self._heartbeat.stop()

    async def _beat(self) -> None:
        while True:
            self._heartbeat.beat()
            await asyncio.sleep(_HEARTBEAT_SECONDS)

    async def _resync(self, reconciler: Reconciler) -> None:
        """Look at every known run now and then: a watch of its Jobs may have gone silent."""
        while True:
            await asyncio.sleep(self._settings.resync_seconds)
            for key in sorted(reconciler.known):
                self.queue.add(key)
