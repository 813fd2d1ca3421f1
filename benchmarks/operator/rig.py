"""A control plane, an operator and kubelets, each a process of its own, for one scenario. Gone when the block ends.

The operator has one core to itself, where there are two: the API server, etcd and the kubelets, which run on other
machines in a cluster, would have it wait.
"""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.operator.scrape import Scrape
from tests.support.cluster.commands import die_with_parent
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.ports import free_ports
from tests.support.kube_cluster import install_crd, kube_client
from tests.support.operator_process import OperatorProcess
from tests.support.operator_runs import is_finished
from tunewright.adapters.kube.client import TUNING_RUNS, Document, KubeClient
from tunewright.adapters.kube.names import RunReference

NAMESPACE = "default"
_AT_ONCE = 16
_LOOK_SECONDS = 1.0
_PATIENCE_SECONDS = 3600


@dataclass
class Rig:
    """What a scenario works with. `peak_bytes` is the operator's largest resident memory that was seen."""

    cluster: ControlPlane
    client: KubeClient
    operator: OperatorProcess
    metrics_port: int
    folder: Path
    cores: set[int]
    """On which the operator runs."""

    peak_bytes: float = 0.0

    def scrape(self) -> Scrape:
        """Read the operator's metrics now."""
        scrape = Scrape.at(self.metrics_port)
        self.peak_bytes = max(self.peak_bytes, scrape.total("tunewright_process_resident_memory_bytes"))
        return scrape

    async def create(self, documents: list[Document]) -> list[RunReference]:
        """Create runs, several at a time."""
        at_once = asyncio.Semaphore(_AT_ONCE)

        async def one(document: Document) -> RunReference:
            async with at_once:
                made = (await self.client.create(TUNING_RUNS, NAMESPACE, document))["metadata"]
            return RunReference(NAMESPACE, made["name"], made["uid"])

        return list(await asyncio.gather(*[one(document) for document in documents]))

    async def ready(self) -> float:
        """Start the operator and return after how many seconds it said that it is ready."""
        began = time.perf_counter()
        self.operator.start()
        os.sched_setaffinity(self.operator.pid, self.cores)
        await self.until(lambda: _answers(self.operator.probe_port))
        return time.perf_counter() - began

    async def until(self, holds: Callable[[], bool], pause_seconds: float = 0.05) -> None:
        """Wait until something holds; raise where the operator ends before."""
        for _ in range(int(_PATIENCE_SECONDS / pause_seconds)):
            if holds():
                return
            if not self.operator.is_running:
                raise SystemExit(f"the operator ended: {self.operator.log.read_text()[-4000:]}")
            await asyncio.sleep(pause_seconds)
        raise SystemExit("not within an hour")

    async def until_idle(self, seconds: float = 3.0) -> None:
        """Wait until the operator neither reconciles nor uses a twentieth of a core: start and imports are over."""
        before = self.scrape()
        while True:
            await asyncio.sleep(seconds)
            now = self.scrape()
            done = now.since(before)
            busy = done.total("tunewright_process_cpu_seconds_total") / seconds
            if busy < 0.05 and not done.total("tunewright_reconcile_seconds_count"):
                return
            before = now

    async def finished(self, wanted: int, look: Callable[[list[Document]], None] = lambda _: None) -> list[Document]:
        """Wait until so many runs are finished and return all; `look` sees them every second."""
        while True:
            runs = await self.client.list(TUNING_RUNS, NAMESPACE)
            look(runs)
            self.scrape()
            if sum(is_finished(run.get("status") or {}) for run in runs) >= wanted:
                return runs
            await asyncio.sleep(_LOOK_SECONDS)

    @contextmanager
    def kubelets(self, nodes: int, seconds: float) -> Iterator[Path]:
        """Play `nodes` kubelets whose Pods run for so long; the file says when each ended."""
        ends = self.folder / "ends.jsonl"
        ends.touch()
        words = [str(self.cluster.kubeconfig), NAMESPACE, str(ends), str(nodes), str(seconds)]
        with _process("benchmarks.operator.kubelet", *words):
            yield ends

    @contextmanager
    def bare_loop(self) -> Iterator[list[float]]:
        """Sample a bare loop's lags on the operator's core; they are there when the block has ended."""
        lags: list[float] = []
        with _process("benchmarks.operator.bare_loop", pipes=True) as process:
            os.sched_setaffinity(process.pid, self.cores)
            yield lags
            output, _ = process.communicate(b"")
            lags.extend(json.loads(output))


@asynccontextmanager
async def rig(*, audit: bool = False, variables: Mapping[str, str] | None = None) -> AsyncIterator[Rig]:
    """Start a control plane with the CRD; the operator is started by `ready`."""
    with _core_left() as cores, ControlPlane(audit=audit) as cluster:
        install_crd(cluster)
        (port,) = free_ports(1)
        folder = cluster.workspace.make("bench")
        own = {"TUNEWRIGHT_METRICS_PORT": str(port), **(variables or {})}
        operator = OperatorProcess(cluster, NAMESPACE, folder / "operator.log", variables=own)
        async with kube_client(cluster) as client:
            try:
                yield Rig(cluster, client, operator, port, folder, cores)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    operator.kill()


@contextmanager
def _core_left() -> Iterator[set[int]]:
    """Keep this process, and what it starts, off one core, which is the operator's; share the only one."""
    cores = os.sched_getaffinity(0)
    own = {max(cores)}
    os.sched_setaffinity(0, cores - own or cores)
    try:
        yield own
    finally:
        os.sched_setaffinity(0, cores)


@contextmanager
def _process(module: str, *words: str, pipes: bool = False) -> Iterator[subprocess.Popen[bytes]]:
    pipe: Any = subprocess.PIPE if pipes else subprocess.DEVNULL
    process = subprocess.Popen(
        [sys.executable, "-m", module, *words],
        stdin=pipe,
        stdout=subprocess.PIPE if pipes else None,
        preexec_fn=die_with_parent(),
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError):
        return False
