"""A run in the making for cluster tests: operator, node, kubelet, and a gate that holds trials while it is shut."""

import asyncio
import json
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

from tests.support.cluster.cluster import Cluster
from tests.support.kube_cluster import apply_run, kube_client
from tests.support.operator_process import OperatorProcess
from tests.support.operator_runs import example, gpu_node, kubelet_of, wait_for
from tests.support.stand_in_kubelet import Answer, StandInKubelet, answer
from tunewright.adapters.kube.client import PODS, TUNING_RUNS, KubeClient
from tunewright.adapters.kube.labels import OWN_OBJECTS
from tunewright.adapters.kube.ledger import read_shards, shards_text
from tunewright.adapters.kube.names import RunReference
from tunewright.trial_protocol.request import TrialRequest

Document = dict[str, Any]


class Gate:
    """Trials go on running while the gate is shut; the first `passing` pass before that."""

    def __init__(self, passing: int = 0) -> None:
        self.is_open = False
        self._passing = passing
        self._seen: set[str] = set()

    def __call__(self, request: TrialRequest) -> str | None:
        self._seen.add(request.identity.trial)
        passes = self.is_open or len(self._seen) <= self._passing
        return answer(request) if passes else None


class Scene:
    """An operator, a node and a kubelet whose trials wait at a gate."""

    def __init__(self, control_plane: Cluster, namespace: str, operator: OperatorProcess, gate: Answer) -> None:
        self.cluster, self.namespace, self.operator, self.gate = control_plane, namespace, operator, gate
        self.client: KubeClient
        self.kubelet: StandInKubelet
        self.run: RunReference
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> "Scene":
        enter = self._stack.enter_async_context
        self.client = await enter(kube_client(self.cluster))
        node = await enter(gpu_node(self.client, self.namespace))
        self._stack.enter_context(self.operator)
        self.kubelet = await enter(kubelet_of(self.client, self.namespace, node, self.gate))
        return self

    async def __aexit__(self, *details: object) -> None:
        await self._stack.aclose()

    def apply(self, **spec: Any) -> None:
        """Apply the example, with other parts of its spec."""
        self.apply_as("tiny", **spec)

    def apply_as(self, name: str, **spec: Any) -> None:
        """Do the same under another name; from then on it is the run that the scene is about."""
        document = example(**spec)
        document["metadata"]["name"] = name
        self.run = apply_run(self.cluster, self.namespace, document)

    async def change(self, spec: Document | None = None, annotations: Document | None = None) -> None:
        patch = {"spec": spec or {}, "metadata": {"annotations": annotations or {}}}
        await self.client.patch(TUNING_RUNS, self.namespace, self.run.name, patch)

    async def until(self, wanted: Callable[[Document], bool], seconds: int = 90) -> Document:
        document = await wait_for(self.client, self.run, wanted, self.operator, seconds)
        return document.get("status") or {}

    async def until_running(self, count: int) -> None:
        await self.until(lambda _: len(self.kubelet.seen) >= count)

    async def ledger(self) -> list[Document]:
        return [json.loads(line) for line in shards_text(await read_shards(self.client, self.run)).splitlines()]

    async def pods(self) -> list[Document]:
        return await self.client.list(PODS, self.namespace, labels=OWN_OBJECTS)


async def is_so(look: Callable[[], Any]) -> None:
    for _ in range(900):  # the garbage collector looks for new kinds every half minute
        if await look():
            return
        await asyncio.sleep(0.1)
    raise AssertionError("did not happen within 90 s")
