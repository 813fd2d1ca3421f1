"""The operator's own tasks beside kopf: workers, the periodic resync, the heartbeat. Started by `handlers`."""

import asyncio
import logging
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack

from tunewright.adapters.kube.client import Document, KubeClient, connected
from tunewright.adapters.kube.rights import check_rights, is_served
from tunewright.controller.collector import Collector
from tunewright.controller.reconcile import Reconciler
from tunewright.controller.settings import OperatorSettings
from tunewright.controller.telemetry import Telemetry
from tunewright.controller.wiring import Wiring
from tunewright.controller.workqueue import WorkQueue
from tunewright.errors import Transient

_HEARTBEAT_SECONDS = 5.0
_SWITCH_SECONDS = 0.001
_BUSY_THREADS = 2
_START_SECONDS = 2.0

_log = logging.getLogger(__name__)


class OperatorLoop:
    """Everything that lives as long as the process."""

    def __init__(self, settings: OperatorSettings) -> None:
        self.queue = WorkQueue()
        self._settings = settings
        self.telemetry = Telemetry(settings)
        self._reconciler: Reconciler | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._stack = AsyncExitStack()

    async def start(self) -> None:
        """Connect and start all tasks."""
        telemetry = self.telemetry
        _share_the_interpreter()
        client = await self._stack.enter_async_context(
            connected(observe=telemetry.metrics.count_request, heeds_environment=False)
        )
        wiring = Wiring(client, self._settings, os.environ, metrics=telemetry.metrics)
        reconciler = self._reconciler = Reconciler(client, wiring, wake=self.queue.add)
        self._stack.push_async_callback(reconciler.close)
        self._stack.enter_context(telemetry.serving())
        await self._until_usable(client)
        workers = [self.queue.work(telemetry.observed(reconciler)) for _ in range(self._settings.workers)]
        forever = [*workers, self._beat(), self._resync(reconciler), telemetry.metrics.measure_lag(), Collector().run()]
        self._tasks = [asyncio.create_task(work) for work in forever]
        for task in self._tasks:
            task.add_done_callback(self._ended)
        self._tasks.append(asyncio.create_task(telemetry.become_ready(client)))

    async def _until_usable(self, client: KubeClient) -> None:
        """Wait for the API server and the CRD, without which kopf would start blind; raise where rights are missing."""
        while True:
            try:
                if await is_served(client, self._settings.namespaces):
                    return await check_rights(client, self._settings.namespaces)
                why = "the API server does not know TuningRuns: waiting for their CRD"
            except Transient as error:
                why = str(error)
            _log.warning("not started yet: %s", why)
            self.telemetry.heartbeat.beat()
            await asyncio.sleep(_START_SECONDS)

    def saw_run(self, key: str, document: Document, *, is_gone: bool) -> None:
        """The watch shows a TuningRun as it is now, or that it is gone."""
        if not is_gone:
            self.telemetry.board.saw(key, document.get("status") or {})
        if self._reconciler is not None:
            self._reconciler.saw_run(key, document, is_gone=is_gone)
        self.queue.add(key)

    def saw_of_run(self, key: str, plural: str, document: Document, *, is_gone: bool) -> None:
        """The watch shows one of the `jobs` or `pods` of a run."""
        if self._reconciler is not None:
            self._reconciler.saw_of_run(key, plural, document, is_gone=is_gone)
        self.queue.add(key)

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
            self.telemetry.heartbeat.stop()

    async def _beat(self) -> None:
        while True:
            self.telemetry.heartbeat.beat()
            await asyncio.sleep(_HEARTBEAT_SECONDS)

    async def _resync(self, reconciler: Reconciler) -> None:
        """Look at every run that is not over now and then: a watch of its Jobs may have gone silent."""
        while True:
            await asyncio.sleep(self._settings.resync_seconds)
            for key in reconciler.unfinished:
                reconciler.look_again(key)
                self.queue.add(key)


def _share_the_interpreter() -> None:
    """Let the event loop get the interpreter back soon from threads that decide, sum up and draw, and keep these few.

    The loop waits for it after each of its many short waits for the API server: for every busy thread one interval.
    """
    sys.setswitchinterval(_SWITCH_SECONDS)
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(_BUSY_THREADS, "planner"))
