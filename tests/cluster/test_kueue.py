"""Trials through the real Kueue manager: its quota decides who runs, waiting there is no run time, and it may evict."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.kueue import queue, start_kueue
from tests.support.cluster.reporting import or_skip
from tests.support.kube_cluster import apply_run, install_crd, kube_client
from tests.support.kube_documents import a_request, a_tuning_run, pod_options
from tests.support.operator_process import OperatorProcess
from tests.support.operator_runs import condition, example, gpu_node, is_finished, kubelet_of, wait_for
from tests.support.stand_in_kubelet import add_gpu_node, answer, fixed_report
from tunewright.adapters.kube.client import JOBS, PODS, TUNING_RUNS, KubeClient
from tunewright.adapters.kube.names import RunReference
from tunewright.adapters.kube.spec.trial import PodSpec
from tunewright.adapters.kube.trials import KubeTrials
from tunewright.ports import TrialObservation
from tunewright.trial_protocol.request import TrialRequest

Document = dict[str, Any]
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def kueue() -> Iterator[ControlPlane]:
    """A control plane of its own: while Kueue's webhooks are there, no Job of anybody can be created without it."""
    cluster = or_skip(ControlPlane().start)
    try:
        or_skip(lambda: start_kueue(cluster))
        install_crd(cluster)
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def place(kueue: ControlPlane) -> str:
    """A namespace with the LocalQueue `tuning`, whose quota is eight GPUs."""
    name = f"queued-{next(_numbers)}"
    kueue.kubectl("create", "namespace", name)
    queue(kueue, name, gpus=8)
    return name


@asynccontextmanager
async def room_for_two(client: KubeClient, namespace: str) -> AsyncIterator[str]:
    """A node of sixteen GPUs: only Kueue holds a second Job of eight back."""
    async with gpu_node(client, namespace) as node:
        await add_gpu_node(client, node, gpus=16)
        yield node


async def eventually(look: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    for _ in range(600):
        found = await look()
        if found:
            return found
        await asyncio.sleep(0.1)
    raise AssertionError("did not happen within 60 s")


def trials_of(client: KubeClient, run: RunReference, **pod: Any) -> KubeTrials:
    return KubeTrials(client, run, pod_options(pod=PodSpec.parse({"queueName": "tuning"} | pod)))


async def observed(trials: KubeTrials, trial: str = "t0012") -> TrialObservation:
    return next(seen for seen in await trials.observe() if seen.trial == trial)


async def test_one_run_at_a_time_runs_under_a_quota_and_waiting_is_not_run_time(
    kueue: ControlPlane, place: str, tmp_path: Path
) -> None:
    """One run waits for longer than its start deadline while the other one's trial holds the quota."""
    deadline = 10
    pod = {"queueName": "tuning", "startDeadlineSeconds": deadline, "runDeadlineSeconds": 600}
    runs = []
    for name in ("first", "second"):
        document = example(pod=pod, budget={"maxTrials": 2}, validation={"topK": 1, "steps": 3})
        document["metadata"]["name"] = name
        runs.append(apply_run(kueue, place, document))
    held = asyncio.Event()

    def unless_held(request: TrialRequest) -> str | None:
        return answer(request) if held.is_set() else None

    most = 0

    async def count(client: KubeClient) -> None:
        nonlocal most
        while True:
            active = [job for job in await client.list(JOBS, place) if job.get("status", {}).get("active")]
            most = max(most, len(active))
            await asyncio.sleep(0.05)

    operator = OperatorProcess(kueue, place, tmp_path / "operator.log")
    async with kube_client(kueue) as client, room_for_two(client, place):
        counting = asyncio.create_task(count(client))
        with operator:
            async with kubelet_of(client, place, "", unless_held):
                name, waiting = await eventually(lambda: queued(client, runs))
                assert "the queue tuning has not admitted it" in waiting["message"]
                await eventually(lambda: waits_longer(client, place, name, 2 * deadline))
                held.set()
                documents = [await wait_for(client, run, is_finished, operator) for run in runs]
        counting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await counting
    assert most == 1
    assert [document["status"]["state"] for document in documents] == ["Succeeded"] * 2
    assert all(document["status"]["trials"]["failed"] == 0 for document in documents)
    spent = next(one["status"]["spent"] for one in documents if one["metadata"]["name"] == name)
    assert spent["durationSeconds"] < 2 * deadline


async def queued(client: KubeClient, runs: list[RunReference]) -> tuple[str, Document] | None:
    """Return a run's name and condition that say that it waits in the queue."""
    for run in runs:
        found = await client.find(TUNING_RUNS, run.namespace, run.name)
        capacity = condition((found or {}).get("status") or {}, "CapacityAvailable")
        if capacity.get("reason") == "Queued":
            return run.name, capacity
    return None


async def waits_longer(client: KubeClient, namespace: str, run: str, seconds: float) -> bool:
    (job,) = await client.list(JOBS, namespace, labels=f"tunewright.dev/run={run}")
    assert job["spec"]["suspend"]
    created = datetime.fromisoformat(job["metadata"]["creationTimestamp"])
    return (datetime.now(UTC) - created).total_seconds() > seconds


async def test_a_trial_on_two_nodes_is_admitted_as_a_whole(kueue: ControlPlane, place: str) -> None:
    run = apply_run(kueue, place, a_tuning_run())
    both = a_request(kind="measure", run_uid=run.uid).model_copy(update={"nodes": 2, "processes_per_node": 4})
    other = a_request(kind="measure", run_uid=run.uid, trial="t0011")
    async with kube_client(kueue) as client, room_for_two(client, place):
        trials = trials_of(client, run)
        await trials.start(other)
        trials.options = replace(trials.options, gpus_per_node=4)
        await eventually(lambda: admitted(client, place, 1))
        await trials.start(both)
        assert (await observed(trials)).state == "queued"
        assert len(await client.list(PODS, place)) == 1, "no Pod of a trial that does not fit as a whole"
        async with kubelet_of(client, place, ""):
            seen = await eventually(lambda: ended(trials))
        assert seen.report == fixed_report(both)
        pods = await client.list(PODS, place, labels="tunewright.dev/trial=t0012")
    assert len(pods) == 2


async def admitted(client: KubeClient, namespace: str, count: int) -> bool:
    jobs = await client.list(JOBS, namespace)
    return sum(not job["spec"]["suspend"] and bool(job["status"].get("active")) for job in jobs) == count


async def ended(trials: KubeTrials) -> TrialObservation | None:
    seen = await observed(trials)
    return seen if seen.state == "finished" else None


async def test_an_evicted_trial_queues_again_and_runs_when_it_is_let(kueue: ControlPlane, place: str) -> None:
    run = apply_run(kueue, place, a_tuning_run())
    request, workload = a_request(run_uid=run.uid), ""
    async with kube_client(kueue) as client, room_for_two(client, place):
        trials = trials_of(client, run)
        await trials.start(request)
        running = asyncio.Event()
        async with kubelet_of(client, place, "", lambda one: answer(one) if running.is_set() else None):
            await eventually(lambda: is_state(trials, "running"))
            workload = kueue.kubectl("get", "workloads", "-n", place, "-o", "name").strip()
            patch = ("patch", workload, "-n", place, "--type=merge", "--patch")
            kueue.kubectl(*patch, '{"spec":{"active":false}}')
            await eventually(lambda: is_state(trials, "queued"))
            running.set()
            kueue.kubectl(*patch, '{"spec":{"active":true}}')
            seen = await eventually(lambda: ended(trials))
    assert (seen.failure, seen.report) == (None, fixed_report(request))


async def is_state(trials: KubeTrials, state: str) -> bool:
    return (await observed(trials)).state == state


@pytest.mark.parametrize("runs", [True, False], ids=["running", "waiting"])
async def test_a_stopped_trial_stays_ended_and_gives_its_quota_back(
    kueue: ControlPlane, place: str, runs: bool
) -> None:
    """A queue would let a Job run again that we only suspend."""
    run = apply_run(kueue, place, a_tuning_run())
    async with kube_client(kueue) as client, room_for_two(client, place):
        trials = trials_of(client, run)
        if not runs:
            await trials.start(a_request(run_uid=run.uid, trial="t0011"))
            await eventually(lambda: admitted(client, place, 1))
        await trials.start(a_request(run_uid=run.uid))
        async with kubelet_of(client, place, "", lambda _: None):
            await eventually(lambda: is_state(trials, "running" if runs else "queued"))
            await trials.stop("t0012", 1)
            assert (await observed(trials)).failure == "Cancelled"
            if not runs:
                await trials.stop("t0011", 1)
            await trials.start(a_request(run_uid=run.uid, trial="t0013"))
            await eventually(lambda: is_running(trials, "t0013"))
            assert (await observed(trials)).failure == "Cancelled"
            jobs = await client.list(JOBS, place, labels="tunewright.dev/trial=t0012")
            assert not jobs[0]["status"].get("active")


async def is_running(trials: KubeTrials, trial: str) -> bool:
    return (await observed(trials, trial)).state == "running"
