"""The trial image is pulled on every node before the first trial, where a run asks for that; nothing rests on it."""

from typing import Any

import pytest

from tests.support.cluster.cluster import Cluster
from tests.support.operator_process import OperatorProcess
from tests.support.operator_runs import condition, is_finished
from tests.support.operator_scene import Gate, Scene, is_so
from tunewright.adapters.kube.client import EVENTS, JOBS, PODS
from tunewright.adapters.kube.labels import COMPONENT

pytestmark = pytest.mark.usefixtures("crd")

Document = dict[str, Any]
PREWARM = {"trial": {"prewarm": True}, "budget": {"maxTrials": 2}, "validation": {"topK": 0, "includeBaseline": False}}


def is_pulling(status: Document) -> bool:
    capacity = condition(status, "CapacityAvailable")
    return capacity.get("reason") == "Prewarming" and "ImagePullBackOff" in capacity["message"]


async def of_the_prewarm(here: Scene) -> list[Document]:
    selector = f"{COMPONENT}=prewarm"
    return [one for kind in (JOBS, PODS) for one in await here.client.list(kind, here.namespace, labels=selector)]


async def jobs_but(here: Scene, known: set[str]) -> list[str]:
    jobs = await here.client.list(JOBS, here.namespace, labels=f"{COMPONENT}=prewarm")
    return [job["metadata"]["name"] for job in jobs if job["metadata"]["uid"] not in known]


async def delete_jobs(here: Scene) -> set[str]:
    """Delete the Jobs of the prewarm by hand; return their uids."""
    jobs = await here.client.list(JOBS, here.namespace, labels=f"{COMPONENT}=prewarm")
    for job in jobs:
        await here.client.delete(JOBS, here.namespace, job["metadata"]["name"])
    return {job["metadata"]["uid"] for job in jobs}


async def said(here: Scene) -> dict[str, str]:
    events = await here.client.list(EVENTS, here.namespace)
    return {one["reason"]: one["message"] for one in events if one["reason"].startswith("Prewarm")}


async def test_the_first_trial_waits_for_the_image_on_every_node_and_nothing_is_left(
    control_plane: Cluster, namespace: str, operator: OperatorProcess
) -> None:
    restricted = "pod-security.kubernetes.io/enforce=restricted"
    control_plane.kubectl("label", "namespace", namespace, restricted)
    gate = Gate()
    gate.is_open = True
    async with (
        Scene(control_plane, namespace, operator, gate) as here,
        here.kubelet.keeping(f"gpu-2-{namespace}") as other,
    ):
        here.kubelet.pulls = False
        here.apply(**PREWARM)
        status = await here.until(is_pulling)
        assert status["answer"].startswith("pulling the image: the trial image is on 0 of 2 node(s), not on gpu-")
        assert (status["state"], status["trials"]["summary"], here.kubelet.seen) == ("Pending", "0/2", {})
        await here.change({"suspend": True})

        async def nothing_is_left() -> bool:
            return not await of_the_prewarm(here)

        await is_so(nothing_is_left)
        await here.change({"suspend": False})
        deleted: set[str] = set()

        async def both_nodes_have_one() -> bool:
            return len(await jobs_but(here, deleted)) == 2

        await is_so(both_nodes_have_one)
        deleted |= await delete_jobs(here)
        await is_so(both_nodes_have_one)
        here.kubelet.pulls = True
        status = await here.until(is_finished)
        assert sorted(here.kubelet.pulled) == sorted([here.kubelet.node, other])
        assert (status["state"], status["trials"]["summary"], len(here.kubelet.seen)) == ("Succeeded", "2/2", 2)
        assert condition(status, "CapacityAvailable")["reason"] == "NodesFound"
        assert await said(here) == {"Prewarmed": "the trial image is on 2 of 2 node(s)"}
        await is_so(nothing_is_left)


async def test_an_image_that_does_not_come_in_time_holds_no_run(
    control_plane: Cluster, namespace: str, operator: OperatorProcess
) -> None:
    """Nor does somebody who deletes its Jobs again and again."""
    gate = Gate()
    gate.is_open = True
    async with Scene(control_plane, namespace, operator, gate) as here:
        here.kubelet.pulls = False
        here.apply(**PREWARM, pod={"startDeadlineSeconds": 20})
        deleted: set[str] = set()

        async def the_run_goes_on() -> bool:
            deleted.update(await delete_jobs(here))
            return bool(here.kubelet.seen)

        await is_so(the_run_goes_on)
        status = await here.until(is_finished)
        told = await said(here)
        assert len(deleted) > 1

        async def nothing_is_left() -> bool:
            return not await of_the_prewarm(here)

        await is_so(nothing_is_left)
    assert (status["state"], status["trials"]["failed"]) == ("Succeeded", 0)
    assert told["PrewarmIncomplete"].startswith("the trial image is on 0 of 1 node(s), not on gpu-")
    assert told["PrewarmIncomplete"].endswith(": trials pull it themselves")
