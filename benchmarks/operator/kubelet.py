"""Plays the kubelets of many nodes for trial Pods, as a process of its own beside the operator. Started by `rig`.

    python -m benchmarks.operator.kubelet KUBECONFIG NAMESPACE ENDS NODES SECONDS

Each Pod runs for SECONDS and then leaves the tests' fixed report. ENDS gets a line for each: its Job and when it ended.
"""

import asyncio
import contextlib
import json
import sys
import time
from pathlib import Path

from tests.support.stand_in_kubelet import add_gpu_node, answer, finished, request_of, running
from tunewright.adapters.kube import labels
from tunewright.adapters.kube.client import PODS, Document, KubeClient, NotFound, connected
from tunewright.errors import Conflict, Transient

GPUS_PER_NODE = 880
"""Pods of eight on one node, as many as a node takes: the load is Pods, not nodes."""
_LOOK_SECONDS = 0.2
_HEARTBEAT_SECONDS = 10.0
_AT_ONCE = 16
_ALIVE = "status.phase!=Succeeded,status.phase!=Failed"


class Kubelets:
    """All Pods of one namespace."""

    def __init__(self, client: KubeClient, namespace: str, ends: Path, seconds: float) -> None:
        self._client, self._namespace, self._ends, self._seconds = client, namespace, ends, seconds
        self._due: dict[str, float] = {}
        self._at_once = asyncio.Semaphore(_AT_ONCE)

    async def run(self, nodes: int) -> None:
        """Serve until killed."""
        await asyncio.gather(self._beat(nodes), self._serve())

    async def _beat(self, nodes: int) -> None:
        while True:
            for number in range(nodes):
                with contextlib.suppress(Transient):
                    await add_gpu_node(self._client, f"bench-{number}", gpus=GPUS_PER_NODE)
            await asyncio.sleep(_HEARTBEAT_SECONDS)

    async def _serve(self) -> None:
        while True:
            with contextlib.suppress(Transient):
                pods = await self._client.list(PODS, self._namespace, labels=labels.OWN_OBJECTS, fields=_ALIVE)
                await asyncio.gather(*[self._advance(pod) for pod in pods if pod["spec"].get("nodeName")])
            await asyncio.sleep(_LOOK_SECONDS)

    async def _advance(self, pod: Document) -> None:
        uid, now = pod["metadata"]["uid"], time.monotonic()
        async with self._at_once:
            with contextlib.suppress(NotFound, Conflict, Transient):
                if uid not in self._due:
                    await self._patch(pod, running())
                    self._due[uid] = now + self._seconds
                elif now >= self._due[uid]:
                    await self._patch(pod, finished(answer(request_of(pod))))
                    self._note(pod)

    async def _patch(self, pod: Document, status: Document) -> None:
        name = pod["metadata"]["name"]
        await self._client.patch(PODS, self._namespace, name, {"status": status}, subresource="status")

    def _note(self, pod: Document) -> None:
        job = pod["metadata"]["labels"]["batch.kubernetes.io/job-name"]
        with self._ends.open("a") as file:
            file.write(json.dumps({"job": job, "at": time.time()}) + "\n")


async def main(kubeconfig: str, namespace: str, ends: str, nodes: str, seconds: str) -> None:
    """Serve until killed."""
    async with connected(kubeconfig) as client:
        await Kubelets(client, namespace, Path(ends), float(seconds)).run(int(nodes))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
