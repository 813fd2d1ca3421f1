"""What the operator tells of itself: probes, metrics, readiness. Made and started by `loop`.

Each server answers from a thread of its own, so that a busy event loop cannot silence them.
"""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import start_http_server

from tunewright.adapters.advisor import runtime
from tunewright.adapters.advisor.llm import in_daemon_thread
from tunewright.adapters.kube.client import TUNING_RUNS, KubeClient
from tunewright.controller import logs
from tunewright.controller.metrics import OperatorMetrics, Reconcile
from tunewright.controller.probes import Heartbeat, ProbeServer
from tunewright.controller.reconcile import Reconciler
from tunewright.controller.run_board import RunBoard
from tunewright.controller.settings import OperatorSettings
from tunewright.errors import ClusterError

_LOOKS = 50
_LOOK_SECONDS = 0.1

_log = logging.getLogger(__name__)


class Telemetry:
    """Metrics, board and heartbeat of this process."""

    def __init__(self, settings: OperatorSettings) -> None:
        self.metrics = OperatorMetrics()
        self.board = RunBoard()
        self.metrics.registry.register(self.board)
        self.heartbeat = Heartbeat()
        self._settings = settings

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Serve probes and metrics on their ports; port 0 leaves one out. Raises `OSError` for a port in use."""
        with self._serving_probes(), self._serving_metrics():
            yield

    def observed(self, reconciler: Reconciler) -> Reconcile:
        """Return the reconcile with its passes counted, and every line that they log about their run."""

        async def reconcile(key: str) -> float | None:
            with logs.about(key):
                delay = await self.metrics.timed(reconciler.reconcile, key)
            if key not in reconciler.known:
                self.board.forget(key)
            return delay

        return reconcile

    async def become_ready(self, client: KubeClient) -> None:
        """Wait until the watch has shown every run that there is; then the operator's own LLM may take its time."""
        while not await self._is_indexed(client):
            await asyncio.sleep(_LOOK_SECONDS)
        self.board.is_complete = self.heartbeat.is_ready = True
        _log.info("ready: every TuningRun is listed")
        if self._settings.llm is not None:
            try:
                await in_daemon_thread(runtime.load, "advisor-import")
            except Exception as error:  # whatever the libraries stumble over: each question meets it again and says so
                _log.error("the LLM of the operator cannot be used: %s: %s", type(error).__name__, error)

    async def _is_indexed(self, client: KubeClient) -> bool:
        """Compare what there is with what the watch has shown; after a while in vain, look at what there is anew."""
        try:
            scopes = self._settings.namespaces or ("",)
            runs = [run["metadata"] for scope in scopes for run in await client.list(TUNING_RUNS, scope)]
        except ClusterError as error:
            _log.warning("not ready: %s", error)
            await asyncio.sleep(_LOOKS * _LOOK_SECONDS)
            return False
        keys = {f"{run['namespace']}/{run['name']}" for run in runs}
        for _ in range(_LOOKS):
            if self.board.has_seen(keys):
                return True
            await asyncio.sleep(_LOOK_SECONDS)
        return False

    @contextmanager
    def _serving_probes(self) -> Iterator[None]:
        if not self._settings.probe_port:
            yield
            return
        probes = ProbeServer(self.heartbeat, self._settings.probe_port)
        probes.start()
        try:
            yield
        finally:
            probes.stop()

    @contextmanager
    def _serving_metrics(self) -> Iterator[None]:
        if not self._settings.metrics_port:
            yield
            return
        server, thread = start_http_server(self._settings.metrics_port, registry=self.metrics.registry)
        try:
            yield
        finally:
            server.shutdown()
            server.server_close()
            thread.join()
