"""Ledger, trials, inventory and events against a real API server."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tests.support.cluster.cluster import Cluster
from tests.support.kube_cluster import kube_client
from tests.support.kube_documents import a_request, pod_options
from tests.support.records import a_header, an_advice
from tests.support.stand_in_kubelet import StandInKubelet, fixed_report
from tunewright.adapters.kube import ledger as ledger_module
from tunewright.adapters.kube.client import CONFIG_MAPS, EVENTS, JOBS, PODS, SERVICES, KubeClient, connected
from tunewright.adapters.kube.events import post, transition_event
from tunewright.adapters.kube.ledger import ConfigMapLedger
from tunewright.adapters.kube.manifests import LEDGER_KEY
from tunewright.adapters.kube.names import RunReference, nodes_service_name, trial_job_name
from tunewright.adapters.kube.spec.trial import PodSpec
from tunewright.adapters.kube.trials import KubeTrials
from tunewright.adapters.ledger.lines import decode_lines
from tunewright.errors import Conflict, Forbidden, LedgerError
from tunewright.planner.records import Record
from tunewright.ports import TrialObservation
from tunewright.trial_protocol.request import TrialRequest

pytestmark = pytest.mark.usefixtures("crd")


def a_ledger(client: KubeClient, run: RunReference) -> ConfigMapLedger:
    return ConfigMapLedger(client, run, decode_lines)


async def eventually(look: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    for _ in range(300):
        found = await look()
        if found:
            return found
        await asyncio.sleep(0.1)
    raise AssertionError("did not happen within 30 s")


async def test_records_survive_and_full_shards_are_sealed(
    control_plane: Cluster, run: RunReference, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_module, "LIVE_SHARD_BYTES", 4096)
    records: list[Record] = [a_header(run_uid=run.uid), *(an_advice(number) for number in range(1, 40))]
    async with kube_client(control_plane) as client:
        ledger = a_ledger(client, run)
        assert await ledger.read() == []
        for record in records:
            await ledger.append([record])
        again = a_ledger(client, run)
        assert await again.read() == records
        assert again.shard_count == ledger.shard_count > 1
        assert again.digest == ledger.digest
        shards = await ledger_module.read_shards(client, run)
    assert [shard.get("immutable", False) for shard in shards] == [True] * (len(shards) - 1) + [False]
    assert all(shard["metadata"]["ownerReferences"][0]["uid"] == run.uid for shard in shards)


async def test_a_second_writer_fails_instead_of_overwriting(control_plane: Cluster, run: RunReference) -> None:
    async with kube_client(control_plane) as client:
        first, second = a_ledger(client, run), a_ledger(client, run)
        await first.append([a_header(run_uid=run.uid)])
        await second.read()
        await first.append([an_advice(1)])
        with pytest.raises(LedgerError, match="could not be written"):
            await second.append([an_advice(2)])
        assert len(await second.read()) == 2


async def test_a_shard_that_was_edited_by_hand_is_named_with_its_line(
    control_plane: Cluster, run: RunReference
) -> None:
    async with kube_client(control_plane) as client:
        ledger = a_ledger(client, run)
        for record in (a_header(run_uid=run.uid), an_advice(1), an_advice(2)):
            await ledger.append([record])
        (shard,) = await ledger_module.read_shards(client, run)
        text = ledger_module.shard_text(shard).replace('"round":1', '"round":7')
        await client.patch(CONFIG_MAPS, run.namespace, shard["metadata"]["name"], {"data": {LEDGER_KEY: text}})
        with pytest.raises(LedgerError, match=rf"ledger of {run.key}:2: the chain is broken: its content"):
            await a_ledger(client, run).read()


async def test_a_missing_shard_is_named(
    control_plane: Cluster, run: RunReference, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_module, "LIVE_SHARD_BYTES", 1)
    async with kube_client(control_plane) as client:
        ledger = a_ledger(client, run)
        await ledger.append([a_header(run_uid=run.uid)])
        await ledger.append([an_advice(1)])
        await client.delete(CONFIG_MAPS, run.namespace, "tiny-ledger-0000")
        with pytest.raises(LedgerError, match="tiny-ledger-0000 of the ledger is missing"):
            await a_ledger(client, run).read()


async def test_lines_that_the_status_knows_and_the_ledger_lacks_are_missed(
    control_plane: Cluster, run: RunReference, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last shard is gone: what is left is whole by itself, and going on from there would repeat trials."""
    monkeypatch.setattr(ledger_module, "LIVE_SHARD_BYTES", 1)
    async with kube_client(control_plane) as client:
        ledger = a_ledger(client, run)
        await ledger.append([a_header(run_uid=run.uid)])
        first = ledger.digest
        await ledger.append([an_advice(1)])
        await client.delete(CONFIG_MAPS, run.namespace, "tiny-ledger-0001")
        assert len(await ConfigMapLedger(client, run, decode_lines, first).read()) == 1
        with pytest.raises(LedgerError, match="of a line that the ledger does not have"):
            await ConfigMapLedger(client, run, decode_lines, ledger.digest).read()


async def test_a_ledger_changes_between_going_with_its_run_and_outliving_it(
    control_plane: Cluster, run: RunReference, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_module, "LIVE_SHARD_BYTES", 1)
    async with kube_client(control_plane) as client:
        ledger = a_ledger(client, run)
        await ledger.append([a_header(run_uid=run.uid)])
        for keep in (True, False):
            await ledger.outlive_run(keep=keep)
            await ledger.append([an_advice(1)])
            shards = await ledger_module.read_shards(client, run)
            assert ["ownerReferences" in shard["metadata"] for shard in shards] == [not keep] * len(shards)
        assert len(await a_ledger(client, run).read()) == 3


def request_of(run: RunReference) -> TrialRequest:
    return a_request(run_uid=run.uid)


def trials_of(client: KubeClient, run: RunReference, **pod: Any) -> KubeTrials:
    return KubeTrials(client, run, pod_options(pod=PodSpec.parse(pod)))


async def finished(trials: KubeTrials) -> TrialObservation:
    async def look() -> TrialObservation | None:
        return next((seen for seen in await trials.observe() if seen.state == "finished"), None)

    seen: TrialObservation = await eventually(look)
    return seen


async def test_a_trial_is_started_once_and_its_report_read(control_plane: Cluster, run: RunReference) -> None:
    async with kube_client(control_plane) as client:
        trials, request = trials_of(client, run), request_of(run)
        await trials.start(request)
        await trials.start(request)
        kubelet = StandInKubelet(client, run.namespace)
        task = asyncio.create_task(kubelet.run())
        seen = await finished(trials)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        assert seen.report == fixed_report(request)
        assert seen.gpu_seconds == 80
        await trials.start(request)
        assert len(await client.list(JOBS, run.namespace)) == 1
    assert list(kubelet.seen.values()) == [1]


async def test_a_report_of_another_trial_is_no_result(control_plane: Cluster, run: RunReference) -> None:
    async with kube_client(control_plane) as client:
        trials = trials_of(client, run)
        await trials.start(request_of(run))
        foreign = StandInKubelet(client, run.namespace, lambda _: '{"protocolVersion":1}')
        task = asyncio.create_task(foreign.run())
        seen = await finished(trials)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    assert (seen.report, seen.failure) == (None, "ResultInvalid")


async def test_a_foreign_job_under_our_name_is_not_touched(control_plane: Cluster, run: RunReference) -> None:
    request = request_of(run)
    foreign = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": trial_job_name(run, request.identity)},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}},
    }
    control_plane.kubectl.apply(foreign, namespace=run.namespace)
    async with kube_client(control_plane) as client:
        with pytest.raises(Conflict, match="is not ours"):
            await trials_of(client, run).start(request)
        assert await trials_of(client, run).observe() == []


def on_two_nodes(run: RunReference) -> TrialRequest:
    return a_request(kind="measure", run_uid=run.uid).model_copy(update={"nodes": 2})


async def test_a_trial_on_two_nodes_is_one_job_of_two_pods_behind_one_service(
    control_plane: Cluster, run: RunReference
) -> None:
    async with kube_client(control_plane) as client:
        trials, request = trials_of(client, run), on_two_nodes(run)
        await trials.start(request)
        await trials.start(request)
        assert len(await client.list(JOBS, run.namespace)) == 1
        kubelet = StandInKubelet(client, run.namespace)
        task = asyncio.create_task(kubelet.run())
        await eventually(lambda: both_ended(client, run))
        seen = await finished(trials)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        assert (seen.report, seen.gpu_seconds) == (fixed_report(request), 2 * 80)
        pods = await client.list(PODS, run.namespace)
        hosts = sorted(pod["spec"]["hostname"] for pod in pods)
        job = trial_job_name(run, request.identity)
        assert hosts == [f"{job}-0", f"{job}-1"]
        assert {pod["spec"]["subdomain"] for pod in pods} == {nodes_service_name(run)}
        (service,) = await client.list(SERVICES, run.namespace)
        assert service["metadata"]["ownerReferences"][0]["uid"] == run.uid


async def both_ended(client: KubeClient, run: RunReference) -> bool:
    pods = await client.list(PODS, run.namespace)
    return [pod["status"].get("phase") for pod in pods] == ["Succeeded"] * 2


async def test_a_foreign_service_under_our_name_is_not_touched(control_plane: Cluster, run: RunReference) -> None:
    foreign = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": nodes_service_name(run)},
        "spec": {"clusterIP": "None", "ports": [{"port": 80}]},
    }
    control_plane.kubectl.apply(foreign, namespace=run.namespace)
    async with kube_client(control_plane) as client:
        with pytest.raises(Conflict, match=r"the Service .* is not ours"):
            await trials_of(client, run).start(on_two_nodes(run))
        assert await client.list(JOBS, run.namespace) == []
        (service,) = await client.list(SERVICES, run.namespace)
    assert service["spec"]["ports"][0]["port"] == 80


async def test_a_job_with_changed_labels_says_nothing(control_plane: Cluster, run: RunReference) -> None:
    async with kube_client(control_plane) as client:
        trials, request = trials_of(client, run), request_of(run)
        await trials.start(request)
        name = trial_job_name(run, request.identity)
        await client.patch(JOBS, run.namespace, name, {"metadata": {"labels": {"tunewright.dev/attempt": "one"}}})
        assert await trials.observe() == []


async def test_stopping_leaves_a_verdict_and_no_pod(control_plane: Cluster, run: RunReference) -> None:
    async with kube_client(control_plane) as client:
        trials = trials_of(client, run)
        await trials.start(request_of(run))
        await trials.observe()
        await trials.stop("t0012", 1)
        await trials.stop("t0013", 1)
        seen = await finished(trials_of(client, run))
    assert (seen.failure, seen.report) == ("Cancelled", None)


async def test_quota_is_told_apart(control_plane: Cluster, run: RunReference) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "gpus"},
        "spec": {"hard": {"requests.amd.com/gpu": "4"}},
    }
    control_plane.kubectl.apply(quota, namespace=run.namespace)

    async def quota_is_known() -> bool:
        found = control_plane.kubectl.get("resourcequota", "gpus", namespace=run.namespace)
        return "hard" in found.get("status", {})

    await eventually(quota_is_known)
    async with kube_client(control_plane) as client:
        trials = trials_of(client, run, startDeadlineSeconds=10)
        await trials.start(request_of(run))
        seen = await finished(trials)
    assert seen.failure == "QuotaExceeded"
    assert "requested: requests.amd.com/gpu=8" in seen.message


async def test_trial_pods_meet_the_restricted_standard(control_plane: Cluster, run: RunReference) -> None:
    label = "pod-security.kubernetes.io/enforce=restricted"
    control_plane.kubectl("label", "namespace", run.namespace, label)
    async with kube_client(control_plane) as client:
        trials = trials_of(client, run, startDeadlineSeconds=10)
        await trials.start(request_of(run))
        pods = await eventually(lambda: trials_pods(client, run))
    assert pods[0]["spec"]["containers"][0]["resources"]["limits"] == {"amd.com/gpu": "8"}


async def trials_pods(client: KubeClient, run: RunReference) -> list[dict[str, Any]]:
    return await client.list(PODS, run.namespace)


async def test_events_of_one_transition_are_written_once(control_plane: Cluster, run: RunReference) -> None:
    event = transition_event(run, "Finished", "Converged", warning=False, at="2026-11-30T05:00:00Z")
    async with kube_client(control_plane) as client:
        await post(client, event)
        await post(client, event)
        found = await client.list(EVENTS, run.namespace, fields="involvedObject.name=tiny")
    assert [item["reason"] for item in found] == ["Finished"]


async def test_missing_rights_are_forbidden(control_plane: Cluster, run: RunReference) -> None:
    control_plane.kubectl("create", "serviceaccount", "nobody", "--namespace", run.namespace)
    kubeconfig = control_plane.service_account_kubeconfig(run.namespace, "nobody")  # type: ignore[attr-defined]
    async with connected(str(kubeconfig)) as client:
        with pytest.raises(Forbidden, match="nobody"):
            await client.list(JOBS, run.namespace)
