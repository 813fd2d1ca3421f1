"""Nodes that are drained or go away under a trial, and Pods that never end: the trial runs again elsewhere."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster.control_plane import ControlPlane
from tests.support.fault_runs import SMALL, scene
from tests.support.operator_runs import is_finished
from tests.support.operator_scene import Gate, Scene
from tunewright.adapters.kube.client import NODES, PODS

pytestmark = pytest.mark.usefixtures("own_crd")

Document = dict[str, Any]


@asynccontextmanager
async def trial_on_one_of_two_nodes(
    cluster: ControlPlane, folder: Path, gate: Gate
) -> AsyncIterator[tuple[Scene, str, Document]]:
    """Yield a scene with a trial that runs and waits at the gate, its node, and its Pod."""
    async with scene(cluster, folder, gate) as here, here.kubelet.keeping(f"gpu-{here.namespace}-b"):
        here.apply(**SMALL)
        await here.until_running(1)
        (pod,) = await here.pods()
        yield here, pod["spec"]["nodeName"], pod


async def ends_of(here: Scene, gate: Gate) -> list[tuple[str, int, str | None, str]]:
    """Let the run go to its end; return how its attempts ended, and where."""
    await here.until(lambda _: len(here.kubelet.seen) >= 2, seconds=400)
    gate.is_open = True
    status = await here.until(is_finished)
    assert (status["state"], status["trials"]["failed"]) == ("Succeeded", 0)
    trials = [line for line in await here.ledger() if line["type"] == "trial"]
    return [(line["trial"], line["attempt"], line.get("failure"), line["node"]) for line in trials]


async def test_a_drained_nodes_trial_runs_on_another(own_control_plane: ControlPlane, tmp_path: Path) -> None:
    async with trial_on_one_of_two_nodes(own_control_plane, tmp_path, gate := Gate()) as (here, node, _):
        drain = ("drain", node, "--force", "--delete-emptydir-data", "--timeout=60s")
        await asyncio.to_thread(here.cluster.kubectl, *drain)
        first, second, *_ = await ends_of(here, gate)
    assert first == ("t0001", 1, "Preempted", node)
    assert second[:3] == ("t0001", 2, None)
    assert second[3] != node


@pytest.mark.long
async def test_a_node_that_is_gone_is_told_and_avoided(own_control_plane: ControlPlane, tmp_path: Path) -> None:
    async with trial_on_one_of_two_nodes(own_control_plane, tmp_path, gate := Gate()) as (here, node, _):
        here.kubelet.gone.add(node)
        await here.client.delete(NODES, "", node)
        first, second, *_ = await ends_of(here, gate)
    assert first == ("t0001", 1, "NodeLost", node)
    assert (second[:3], second[3] != node) == (("t0001", 2, None), True)


@pytest.mark.long
async def test_a_pod_that_terminates_for_ever_is_given_up(own_control_plane: ControlPlane, tmp_path: Path) -> None:
    async with trial_on_one_of_two_nodes(own_control_plane, tmp_path, gate := Gate()) as (here, node, pod):
        name = pod["metadata"]["name"]
        here.kubelet.never_confirms.add(name)
        await here.client.delete(PODS, here.namespace, name)
        first, second, *_ = await ends_of(here, gate)
        here.kubelet.never_confirms.clear()
    assert first == ("t0001", 1, "NodeLost", node)
    assert second[:3] == ("t0001", 2, None)
