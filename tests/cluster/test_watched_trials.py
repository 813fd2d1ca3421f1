"""Trials whose Jobs and Pods a watch shows: few requests, and no conclusion from a watch that is late or silent."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.support.cluster.cluster import Cluster
from tests.support.kube_documents import a_request, pod_options
from tests.support.stand_in_kubelet import StandInKubelet, fixed_report
from tunewright.adapters.kube.client import JOBS, PODS, KubeClient, Resource, connected
from tunewright.adapters.kube.names import RunReference, trial_job_name
from tunewright.adapters.kube.spec.search import ResultsSpec
from tunewright.adapters.kube.spec.trial import PodSpec
from tunewright.adapters.kube.trials import KubeTrials
from tunewright.ports import TrialObservation
from tunewright.trial_protocol.request import TrialRequest

pytestmark = pytest.mark.usefixtures("crd")

Document = dict[str, Any]
SECONDS = 60


@dataclass
class Scene:
    """A client that counts, and trials that see what they are shown."""

    client: KubeClient
    run: RunReference
    asked: Counter[str] = field(default_factory=Counter)

    def trials(self) -> KubeTrials:
        return KubeTrials(self.client, self.run, pod_options(pod=PodSpec()), is_watched=True)

    @property
    def request(self) -> TrialRequest:
        return a_request(run_uid=self.run.uid)

    async def job(self) -> Document:
        found = await self.client.find(JOBS, self.run.namespace, trial_job_name(self.run, self.request.identity))
        assert found is not None
        return found

    async def pod(self) -> Document:
        (pod,) = await self.client.list(PODS, self.run.namespace)
        return pod

    async def ended(self) -> None:
        """Let a kubelet finish the trial, and wait until its Job says so."""
        task = asyncio.create_task(StandInKubelet(self.client, self.run.namespace).run())
        for _ in range(SECONDS * 10):
            if any(item["type"] == "Complete" for item in (await self.job())["status"].get("conditions") or ()):
                break
            await asyncio.sleep(0.1)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@asynccontextmanager
async def a_scene(control_plane: Cluster, run: RunReference) -> AsyncIterator[Scene]:
    asked: Counter[str] = Counter()
    async with connected(str(control_plane.kubeconfig), lambda method, *_: asked.update([method])) as client:
        yield Scene(client, run, asked)


def show(trials: KubeTrials, resource: Resource, document: Document, *, is_gone: bool = False) -> None:
    trials.saw(resource.plural, document, is_gone=is_gone)


async def only(trials: KubeTrials) -> TrialObservation:
    trials.begin_pass()
    (seen,) = await trials.observe()
    return seen


async def test_a_trial_that_is_watched_costs_one_request_beside_the_first_look(
    control_plane: Cluster, run: RunReference
) -> None:
    async with a_scene(control_plane, run) as scene:
        trials = scene.trials()
        assert await trials.observe() == []
        await trials.start(scene.request)
        assert (await only(trials)).state == "queued"
        await scene.ended()
        job, pod = await scene.job(), await scene.pod()
        scene.asked.clear()
        show(trials, PODS, pod)
        show(trials, JOBS, job)
        seen = await only(trials)
        assert (seen.report, seen.gpu_seconds) == (fixed_report(scene.request), 80)
        assert not scene.asked
        key = seen.trial, seen.attempt
        for _ in range(3):
            await trials.dispose({key: None}, ResultsSpec())
            show(trials, PODS, pod)
            assert (await only(trials)).state == "finished"
        assert scene.asked == {"PATCH": 1}
        show(trials, JOBS, await scene.job(), is_gone=True)
        trials.begin_pass()
        assert await trials.observe() == []


async def test_a_job_that_is_seen_to_end_before_its_pod_is_looked_at(control_plane: Cluster, run: RunReference) -> None:
    async with a_scene(control_plane, run) as scene:
        trials = scene.trials()
        await trials.start(scene.request)
        await only(trials)
        await scene.ended()
        show(trials, JOBS, await scene.job())
        scene.asked.clear()
        assert (await only(trials)).report == fixed_report(scene.request)
        assert scene.asked == {"GET": 2}


async def test_a_trial_is_not_given_up_because_a_watch_is_late(control_plane: Cluster, run: RunReference) -> None:
    async with a_scene(control_plane, run) as scene:
        late = scene.trials()
        assert await late.observe() == []
        await scene.trials().start(scene.request)
        late.begin_pass()
        assert await late.observe() == []
        await late.adopt(scene.request)
        assert (await only(late)).state == "queued"


async def test_a_trial_whose_job_is_gone_is_given_up(control_plane: Cluster, run: RunReference) -> None:
    async with a_scene(control_plane, run) as scene:
        trials = scene.trials()
        await trials.start(scene.request)
        await only(trials)
        job = await scene.job()
        await scene.client.delete(JOBS, run.namespace, job["metadata"]["name"])
        show(trials, JOBS, job | {"metadata": job["metadata"] | {"resourceVersion": "1"}}, is_gone=True)
        assert (await only(trials)).state == "queued"
        trials.look_again()
        trials.begin_pass()
        assert await trials.observe() == []
        await trials.adopt(scene.request)
        assert (await only(trials)).failure == "NodeLost"
