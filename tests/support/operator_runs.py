"""Runs of the operator in cluster tests: the example, its node and kubelet, and waiting for a status."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.support.operator_process import OperatorProcess
from tests.support.stand_in_kubelet import Answer, StandInKubelet, add_gpu_node, answer
from tunewright.adapters.kube.client import NODES, TUNING_RUNS, KubeClient
from tunewright.adapters.kube.names import RunReference

EXAMPLE = Path(__file__).parents[2] / "examples" / "tuningrun.yaml"
Document = dict[str, Any]


def example(**spec: Any) -> Document:
    document: Document = yaml.safe_load(EXAMPLE.read_text())
    document["spec"] |= spec
    return document


@asynccontextmanager
async def gpu_node(client: KubeClient, namespace: str) -> AsyncIterator[str]:
    """A node of this test's own; gone afterwards, so that its Pods are collected."""
    name = f"gpu-{namespace}"
    await add_gpu_node(client, name)
    try:
        yield name
    finally:
        await client.delete(NODES, "", name)


@asynccontextmanager
async def kubelet_of(
    client: KubeClient, namespace: str, node: str, answers: Answer = answer
) -> AsyncIterator[StandInKubelet]:
    kubelet = StandInKubelet(client, namespace, answers, node=node)
    task = asyncio.create_task(kubelet.run())
    try:
        yield kubelet
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def wait_for(
    client: KubeClient,
    run: RunReference,
    wanted: Callable[[Document], bool],
    operator: OperatorProcess,
    seconds: int = 90,
) -> Document:
    """Return the run as soon as its status is as wanted; an operator that ends is started again, as by a kubelet."""
    for _ in range(seconds * 10):
        document = await client.find(TUNING_RUNS, run.namespace, run.name)
        if document is not None and wanted(document.get("status") or {}):
            return document
        if not operator.is_running:
            operator.start()
        await asyncio.sleep(0.1)
    raise AssertionError(
        f"not within {seconds} s: {json.dumps(document, indent=1)}\n{operator.log.read_text()[-4000:]}"
    )


def condition(status: Document, name: str) -> Document:
    found: Document = next(
        (item for item in status.get("conditions", ()) if item["type"] == name), {"status": "Unknown"}
    )
    return found


def is_finished(status: Document) -> bool:
    return condition(status, "Finished")["status"] == "True"
