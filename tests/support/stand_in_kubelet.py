"""Plays the kubelet for trial Pods on a bare control plane: runs nothing, answers each request with a fixed report.

The report is a pure function of the request, so that two runs of the same search meet the same world.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any

from tunewright.adapters.kube import labels
from tunewright.adapters.kube.client import NODES, PODS, KubeClient, NotFound
from tunewright.adapters.kube.manifests import CONTAINER, REQUEST_VARIABLE
from tunewright.adapters.kube.prewarm import COMPONENT
from tunewright.errors import Conflict, Transient
from tunewright.trial_protocol.codec import decode_request, encode_report
from tunewright.trial_protocol.report import LayerTiming, Measured, Profile, Timing, TrialReport
from tunewright.trial_protocol.request import TrialRequest

Answer = Callable[[TrialRequest], str | None]
"""What a trial leaves; None while it goes on running."""
ENDING_SECONDS = 1.0
STARTED, FINISHED = "2026-11-30T05:00:00Z", "2026-11-30T05:00:10Z"


def fixed_report(request: TrialRequest) -> TrialReport:
    """Return plausible figures that depend on the configuration's digest alone."""
    share = 1 + int(request.identity.config_digest[:4], 16) / 0xFFFF
    if request.identity.kind == "measure":
        world = request.nodes * request.processes_per_node
        measured = Measured(
            step_seconds=(0.01 * share,) * request.steps,
            tokens_per_step=request.problem.tokens_per_step,
            world_size=world,
            nodes=request.nodes,
            first_loss=6.0,
            last_loss=5.0,
        )
        return TrialReport(identity=request.identity, measured=measured, simulated=True)
    timing = Timing(seconds=1e-4 * share)
    layer = LayerTiming(forward=timing, backward_input=timing, backward_weight=timing)
    profile = Profile(
        dense_layer=layer, embedding=layer, head=layer, optimizer_seconds_per_parameter=1e-11, peak_memory_bytes=10**9
    )
    return TrialReport(identity=request.identity, profile=profile, simulated=True)


def answer(request: TrialRequest) -> str:
    """Return the text of `fixed_report`."""
    return encode_report(fixed_report(request))


def interrupted(request: TrialRequest) -> str:
    """Return what the trial program leaves when it is told to end."""
    return encode_report(TrialReport(identity=request.identity, failure="Preempted", message="interrupted by SIGTERM"))


def request_of(pod: dict[str, Any]) -> TrialRequest:
    """Return what a Pod is asked."""
    environment = {item["name"]: item.get("value", "") for item in pod["spec"]["containers"][0]["env"]}
    return decode_request(environment[REQUEST_VARIABLE])


class StandInKubelet:
    """Finishes every trial Pod of a namespace, and keeps its node ready. `seen` counts the Jobs of each name.

    A second Pod of one Job is Kubernetes' own: it makes one where an API server ends before it has answered to the
    first. `nodes` says where each Job's Pod was. `kept` are the nodes that it keeps ready; on `gone` ones nothing
    happens any more. A Pod among `never_confirms` holds its node after it was told to end.
    """

    def __init__(self, client: KubeClient, namespace: str, answers: Answer = answer, node: str = "") -> None:
        self._jobs: dict[str, set[str]] = {}
        """The Jobs of each name that had a Pod, by their UIDs."""
        self.nodes: dict[str, str] = {}
        self.kept = {node} if node else set()
        self.gone: set[str] = set()
        self.never_confirms: set[str] = set()
        self.pulls = True
        self.pulled: list[str] = []
        """Nodes that a prewarm asked to pull the image, in order; while it does not pull, none of them has it."""
        self._client = client
        self._namespace = namespace
        self._answers = answers
        self.node = node
        self._done: set[str] = set()
        self._running: set[str] = set()
        self._ending: dict[str, float] = {}
        self._registering = asyncio.Lock()

    @property
    def seen(self) -> dict[str, int]:
        """How many Jobs of each name had a Pod."""
        return {name: len(uids) for name, uids in self._jobs.items()}

    @contextlib.asynccontextmanager
    async def keeping(self, node: str) -> AsyncIterator[str]:
        """Keep one node more; gone afterwards, and not registered again by a look that had begun before."""
        await add_gpu_node(self._client, node)
        self.kept.add(node)
        try:
            yield node
        finally:
            async with self._registering:
                self.kept.discard(node)
                await self._client.delete(NODES, "", node)

    async def run(self) -> None:
        """Serve until cancelled."""
        while True:
            with contextlib.suppress(Transient):  # a kubelet outlives its API server
                await self._look()
            await asyncio.sleep(0.1)

    async def _look(self) -> None:
        async with self._registering:
            for node in self.kept - self.gone:
                await add_gpu_node(self._client, node)
        for pod in await self._client.list(PODS, self._namespace, labels=labels.OWN_OBJECTS):
            if pod["spec"].get("nodeName") in self.gone:
                continue
            if pod["metadata"].get("deletionTimestamp"):
                await self._remove(pod)
            elif pod["metadata"]["uid"] not in self._done and self._is_due(pod):
                await self._finish(pod)

    def _is_due(self, pod: dict[str, Any]) -> bool:
        """Where there is a node, a Pod must be bound to it first: a kubelet sees no other."""
        bound = bool(pod["spec"].get("nodeName")) or not self.node
        return bound and pod["status"].get("phase") in ("Pending", "Running")

    async def _remove(self, pod: dict[str, Any]) -> None:
        """Confirm that a deleted Pod has ended: until then it holds its node. Containers take a moment to end."""
        now = asyncio.get_running_loop().time()
        if now < self._ending.setdefault(pod["metadata"]["uid"], now + ENDING_SECONDS):
            return
        name = pod["metadata"]["name"]
        if name in self.never_confirms:
            return
        path = f"/api/v1/namespaces/{self._namespace}/pods/{name}"
        with contextlib.suppress(NotFound, Conflict, Transient):
            if pod["status"].get("phase") in ("Pending", "Running"):  # a Job lets go of a Pod only when it has ended
                is_trial = pod["metadata"]["labels"].get(labels.COMPONENT) != COMPONENT
                left = interrupted(request_of(pod)) if is_trial else ""
                status = {"status": finished(left, exit_code=1, reason="Error")}
                await self._client.patch(PODS, self._namespace, name, status, subresource="status")
            await self._client._call("DELETE", path, query={"gracePeriodSeconds": "0"})

    async def _pull(self, pod: dict[str, Any]) -> None:
        """Only pull the image: a Pod of a prewarm is no trial, and has no request."""
        waiting = {"reason": "ImagePullBackOff", "message": "no such image"}
        status = finished("") if self.pulls else {"containerStatuses": [_container({"waiting": waiting})]}
        await self._say(pod, status)
        if self.pulls:
            self.pulled.append(pod["spec"].get("nodeName", ""))
            self._done.add(pod["metadata"]["uid"])

    async def _finish(self, pod: dict[str, Any]) -> None:
        if pod["metadata"]["labels"].get(labels.COMPONENT) == COMPONENT:
            return await self._pull(pod)
        message = self._answers(request_of(pod))
        uid = pod["metadata"]["uid"]
        job = pod["metadata"]["labels"]["batch.kubernetes.io/job-name"]
        if uid not in self._running:
            self._jobs.setdefault(job, set()).add(pod["metadata"]["labels"]["batch.kubernetes.io/controller-uid"])
            self.nodes[job] = pod["spec"].get("nodeName", "")
        elif message is None:
            return
        self._running.add(uid)
        await self._say(pod, running() if message is None else finished(message))
        if message is not None:
            self._done.add(uid)

    async def _say(self, pod: dict[str, Any], status: dict[str, Any]) -> None:
        """Write the status of a Pod, which may go away meanwhile. An API server that is away is told later."""
        with contextlib.suppress(NotFound, Conflict):
            name = pod["metadata"]["name"]
            await self._client.patch(PODS, self._namespace, name, {"status": status}, subresource="status")


def running() -> dict[str, Any]:
    """Return the status of a Pod whose container runs."""
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    container = _container({"running": {"startedAt": now}})
    return {"phase": "Running", "containerStatuses": [container | {"ready": True}]}


def finished(message: str, *, exit_code: int = 0, reason: str = "Completed") -> dict[str, Any]:
    """Return the status of a Pod whose container ended."""
    terminated = {"exitCode": exit_code, "reason": reason, "message": message}
    times = {"startedAt": STARTED, "finishedAt": FINISHED}
    container = _container({"terminated": terminated | times})
    return {"phase": "Failed" if exit_code else "Succeeded", "containerStatuses": [container]}


def _container(state: dict[str, Any]) -> dict[str, Any]:
    return {"name": CONTAINER, "image": "image", "imageID": "", "ready": False, "restartCount": 0, "state": state}


async def add_gpu_node(client: KubeClient, name: str, gpus: int = 8, device_id: str = "75a3") -> None:
    """Register a node that offers GPUs and says that it is ready; again, to keep it so."""
    node_labels = {"amd.com/gpu.device-id": device_id, "kubernetes.io/hostname": name}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": node_labels}}
    with contextlib.suppress(Conflict):
        await client.create(NODES, "", node)
    amounts = {"amd.com/gpu": str(gpus), "cpu": "64", "memory": "512Gi", "pods": "110"}
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "", "lastHeartbeatTime": now}
    status = {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}
    await client.patch(NODES, "", name, {"status": status}, subresource="status")
    await client.patch(NODES, "", name, {"spec": {"taints": None}})
