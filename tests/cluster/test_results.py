"""What is left of trials and runs, for how long, and what another run makes of it."""

import asyncio
import json
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.support.cluster.cluster import Cluster
from tests.support.operator_process import OperatorProcess
from tests.support.operator_runs import condition, is_finished
from tests.support.operator_scene import Gate, Scene, is_so
from tests.support.stand_in_kubelet import answer
from tunewright.adapters.kube import labels
from tunewright.adapters.kube.client import CONFIG_MAPS, JOBS
from tunewright.adapters.kube.export import exported_ledger
from tunewright.adapters.kube.ledger import read_shards
from tunewright.adapters.ledger.lines import decode_lines
from tunewright.cli.app import app
from tunewright.planner.replay import replay
from tunewright.trial_protocol.request import TrialRequest

pytestmark = pytest.mark.usefixtures("crd")

Document = dict[str, Any]
SHORT: Document = {"budget": {"maxTrials": 3}, "validation": {"topK": 1, "steps": 5, "repeats": 1}}


def open_gate() -> Gate:
    gate = Gate()
    gate.is_open = True
    return gate


def failing_second(request: TrialRequest) -> str | None:
    return "no report" if request.identity.trial == "t0002" else answer(request)


async def collected(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, *options: str) -> list[Document]:
    """Run `tunewright gc` and return what it prints."""
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    arguments = ["gc", "--json", *options]
    result = await asyncio.to_thread(CliRunner().invoke, app, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    found: list[Document] = json.loads(result.stdout)["leftovers"]
    return found


async def test_jobs_go_when_their_results_are_stored_and_the_latest_failed_stay(
    control_plane: Cluster, namespace: str, operator: OperatorProcess
) -> None:
    async with Scene(control_plane, namespace, operator, failing_second) as here:
        here.apply(**SHORT, results={"trialTTLSecondsAfterFinished": 0, "keepFailedTrials": 1})
        status = await here.until(is_finished)
        assert status["trials"]["failedByClass"] == [{"class": "ResultInvalid", "count": 1}]

        async def one_job_is_left() -> bool:
            return len(await here.client.list(JOBS, namespace)) == 1

        await is_so(one_job_is_left)
        (job,) = await here.client.list(JOBS, namespace)
        assert job["metadata"]["labels"][labels.TRIAL] == "t0002"
        assert len(await here.ledger()) > 10


async def test_results_that_are_kept_outlive_the_run_until_they_are_collected(
    control_plane: Cluster, namespace: str, operator: OperatorProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Scene(control_plane, namespace, operator, open_gate()) as here:
        here.apply(**SHORT)
        await here.until(is_finished)
        await here.change(
            {"results": {"keep": True}}, {"argocd.argoproj.io/tracking-id": "app:tunewright.dev/TuningRun:a/b"}
        )
        await here.until(lambda status: status["observedGeneration"] == 2)
        assert await collected(control_plane, monkeypatch, "-n", namespace) == []
        shards = await read_shards(here.client, here.run)
        result = await here.client.find(CONFIG_MAPS, namespace, "tiny-result")
        assert result is not None
        for kept in (*shards, result):
            assert "ownerReferences" not in kept["metadata"]
            assert kept["metadata"]["annotations"] == {labels.KEPT: "true"}
            own = {labels.MANAGED_BY, labels.RUN, labels.RUN_UID, labels.COMPONENT}
            assert set(kept["metadata"]["labels"]) == own, "what a GitOps tool would take for its own is not copied"
        control_plane.kubectl("delete", "tuningrun", "tiny", "-n", namespace, "--timeout=30s")

        async def jobs_are_gone() -> bool:
            return not await here.client.list(JOBS, namespace)

        await is_so(jobs_are_gone)
        found = await collected(control_plane, monkeypatch, "-n", namespace)
        assert {(item["name"], item["why"]) for item in found} == {
            (kept["metadata"]["name"], "kept") for kept in (*shards, result)
        }
        ledger = await exported_ledger(namespace, "tiny", str(control_plane.kubeconfig))
        assert replay(decode_lines(ledger, "export")) is None
        here.apply(**SHORT)
        status = await here.until(lambda status: condition(status, "Finished").get("reason") == "Blocked")
        assert "an earlier run of this name kept it: see tunewright gc" in condition(status, "Finished")["message"]
        found = await collected(control_plane, monkeypatch, "-n", namespace, "--delete")
        assert not any(item["removed"] for item in found)
        removed = await collected(control_plane, monkeypatch, "-n", namespace, "--delete", "--kept")
        assert all(item["removed"] for item in removed)
        await here.until(is_finished)


async def test_orphans_are_listed_and_removed(
    control_plane: Cluster, namespace: str, operator: OperatorProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Scene(control_plane, namespace, operator, Gate(passing=1)) as here:
        here.apply(**SHORT)
        await here.until_running(2)
        control_plane.kubectl("delete", "tuningrun", "tiny", "-n", namespace, "--cascade=orphan", "--timeout=30s")

        async def two_jobs_and_the_ledger_are_orphans() -> bool:
            found = await collected(control_plane, monkeypatch, "-n", namespace, "--run", "tiny")
            return [(item["kind"], item["why"]) for item in found] == [
                ("ConfigMap", "orphan"),
                ("Job", "orphan"),
                ("Job", "orphan"),
            ]

        await is_so(two_jobs_and_the_ledger_are_orphans)
        await collected(control_plane, monkeypatch, "-n", namespace, "--delete")
        assert await here.client.list(CONFIG_MAPS, namespace, labels=labels.OWN_OBJECTS) == []


async def test_a_warm_start_takes_no_profile_again(
    control_plane: Cluster, namespace: str, operator: OperatorProcess
) -> None:
    async with Scene(control_plane, namespace, operator, open_gate()) as here:
        here.apply(**SHORT)
        first = await here.until(is_finished)
        jobs = set(here.kubelet.seen)
        here.apply_as("again", **SHORT, warmStart={"ledgerFrom": {"name": "tiny"}})
        second = await here.until(is_finished)
        started = set(here.kubelet.seen) - jobs
        ledger = await here.ledger()
    assert second["best"]["projected"] == first["best"]["projected"]
    assert len(started) == second["trials"]["measured"] == 2, "measurements are made anew"
    answered = [line for line in ledger if line["type"] == "trial" and line.get("recordedFrom")]
    assert len(answered) == 3
    assert sum(line.get("gpuSeconds", 0) for line in answered) == 0
    assert ledger[0]["warmStartOf"] == first["results"]["ledgerDigest"].removeprefix("sha256:")


async def test_a_warm_start_from_something_else_is_refused_with_the_reason(
    control_plane: Cluster, namespace: str, operator: OperatorProcess
) -> None:
    async with Scene(control_plane, namespace, operator, open_gate()) as here:
        here.apply(**SHORT)
        await here.until(is_finished)
        here.apply_as("other", **SHORT, trial={"image": "other:2"}, warmStart={"ledgerFrom": {"name": "tiny"}})
        other = condition(await here.until(bool), "Accepted")
        here.apply_as("nowhere", **SHORT, warmStart={"ledgerFrom": {"name": "missing"}})
        nowhere = condition(await here.until(bool), "Accepted")
    assert (other["status"], other["reason"]) == ("False", "Illegal")
    assert "another image: registry.example.com/trial:test, not other:2" in other["message"]
    assert (nowhere["status"], nowhere["reason"]) == ("False", "ReferenceNotFound")
    assert "spec.warmStart.ledgerFrom.name: 'missing'" in nowhere["message"]


async def test_a_ledger_that_was_deleted_holds_the_run_instead_of_repeating_it(
    control_plane: Cluster, namespace: str, operator: OperatorProcess
) -> None:
    async with Scene(control_plane, namespace, operator, gate := Gate(passing=2)) as here:
        here.apply(**SHORT)
        await here.until_running(3)
        await here.until(lambda status: status["trials"]["summary"] == "3/3")
        here.operator.kill()
        shards = await read_shards(here.client, here.run)
        for shard in shards:
            await here.client.delete(CONFIG_MAPS, namespace, shard["metadata"]["name"])
        here.operator.start()
        gate.is_open = True
        status = await here.until(lambda status: condition(status, "Finished")["reason"] == "LedgerUnreadable")
        assert "status.results.ledgerDigest" in condition(status, "Finished")["message"]
        assert status["trials"]["summary"] == "3/3"
        assert len(here.kubelet.seen) == 3
        for shard in shards:
            await here.client.create(CONFIG_MAPS, namespace, restored(shard))
        await here.until(is_finished)
    assert set(here.kubelet.seen.values()) == {1}


def restored(shard: Document) -> Document:
    server_side = ("resourceVersion", "uid", "creationTimestamp", "managedFields")
    metadata = {key: value for key, value in shard["metadata"].items() if key not in server_side}
    return {**shard, "metadata": metadata}
