"""What people do to our objects by hand: repaired where it can be derived, told where not, and theirs left alone."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster.control_plane import ControlPlane
from tests.support.fault_runs import SMALL, assert_same_as, finished_ledger, scene
from tests.support.operator_runs import condition, is_finished
from tests.support.operator_scene import Gate, Scene, is_so
from tunewright.adapters.kube import labels
from tunewright.adapters.kube.client import CONFIG_MAPS, EVENTS, JOBS, TUNING_RUNS
from tunewright.adapters.kube.names import ledger_shard_name, trial_job_name
from tunewright.domain.training_config import TrainingConfig
from tunewright.trial_protocol.identity import TrialIdentity

pytestmark = pytest.mark.usefixtures("own_crd")

Document = dict[str, Any]


async def job_of(here: Scene, attempt: int) -> str:
    """Return the name of the Job of the first trial's attempt, once its Pod runs."""

    async def name() -> str:
        return next((job for job in here.kubelet.seen if f"-t0001-a{attempt}-" in job), "")

    await is_so(name)
    return await name()


async def test_deleted_and_relabelled_trials_run_again_and_an_edited_status_is_written_anew(
    own_control_plane: ControlPlane, tmp_path: Path
) -> None:
    gate = Gate()
    async with scene(own_control_plane, tmp_path, gate) as here:
        kubectl, place = here.cluster.kubectl, ("--namespace", here.namespace)
        here.apply(**SMALL)
        kubectl("delete", "job", await job_of(here, 1), *place, "--wait=false")
        second = await job_of(here, 2)
        kubectl("delete", "pod", "--selector", f"batch.kubernetes.io/job-name={second}", *place, "--wait=false")
        third = await job_of(here, 3)
        nonsense: Document = {"status": {"answer": "42", "state": "Succeeded", "trials": None, "recentTrials": []}}
        await here.client.patch(TUNING_RUNS, here.namespace, here.run.name, nonsense, subresource="status")
        status = await here.until(lambda status: status["state"] == "Sweeping" and bool(status.get("recentTrials")))
        assert status["trials"]["running"] == 1
        await here.client.patch(TUNING_RUNS, here.namespace, here.run.name, {"status": None}, subresource="status")
        await here.until(lambda status: status.get("state") == "Sweeping")
        kubectl("label", "job", third, *place, f"{labels.RUN}=another", "--overwrite")
        gate.is_open = True
        status = await here.until(is_finished)
        ended = [(end["trial"], end.get("failure")) for end in await here.ledger() if end["type"] == "trial"]
    assert ended[:3] == [("t0001", failure) for failure in ("NodeLost", "Preempted", "NodeLost")]
    assert (status["state"], status["trials"]["lastFailure"]["trial"]) == ("Succeeded", "t0001")
    assert "deleted before its end" in status["trials"]["lastFailure"]["message"]
    assert {failure for trial, failure in ended if trial != "t0001"} == {None}


async def test_a_label_on_the_ledgers_config_map_is_no_reason_to_stop(
    own_control_plane: ControlPlane, tmp_path: Path
) -> None:
    expected = await finished_ledger(own_control_plane, tmp_path, **SMALL)
    gate = Gate(passing=1)
    async with scene(own_control_plane, tmp_path, gate) as here:
        here.apply(**SMALL)
        await here.until_running(2)
        here.cluster.kubectl("label", "configmap", "--all", "team=a", "--namespace", here.namespace)
        gate.is_open = True
        await here.until(is_finished)
        await assert_same_as(here, expected)
        events = await here.client.list(EVENTS, here.namespace, fields="involvedObject.kind=TuningRun,type=Warning")
    assert events == []


async def test_a_foreign_object_under_our_name_is_told_and_never_touched(
    own_control_plane: ControlPlane, tmp_path: Path
) -> None:
    expected = await finished_ledger(own_control_plane, tmp_path, **SMALL)
    async with scene(own_control_plane, tmp_path) as here:
        foreign_shard: Document = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": f"tiny-ledger-{0:04d}"},
            "data": {"mine": "yes"},
        }
        here.cluster.kubectl.apply(foreign_shard, namespace=here.namespace)
        here.apply(**SMALL)
        assert foreign_shard["metadata"] == {"name": ledger_shard_name(here.run, 0)}
        foreign_job = job_named(first_job_name(here, expected))
        here.cluster.kubectl.apply(foreign_job, namespace=here.namespace)
        for kind, resource, document in (("configmap", CONFIG_MAPS, foreign_shard), ("job", JOBS, foreign_job)):
            name = str(document["metadata"]["name"])

            def is_told(status: Document, name: str = name) -> bool:
                finished = condition(status, "Finished")
                return finished.get("reason") == "Blocked" and name in finished["message"]

            told = condition(await here.until(is_told), "Finished")
            assert ("not ours" in told["message"], told["status"]) == (True, "False")
            left = await here.client.find(resource, here.namespace, name)
            assert left is not None
            assert labels.MANAGED_BY not in left["metadata"].get("labels", {})
            writers = {entry["manager"] for entry in left["metadata"]["managedFields"]}
            assert writers <= {"kubectl-client-side-apply", "kube-controller-manager"}
            here.cluster.kubectl("delete", kind, name, "--namespace", here.namespace)
            await here.change(annotations={"example.com/removed": name})  # else it is tried again later
        await here.until(is_finished)
        await assert_same_as(here, expected)
        events = await here.client.list(EVENTS, here.namespace, fields="involvedObject.kind=TuningRun,reason=Blocked")
    assert len(events) == 2


def first_job_name(here: Scene, expected: list[object]) -> str:
    """Return the name that the first trial's Job will have: that of the same run elsewhere, with this run's uid."""
    rounds = [record["decisions"] for record in expected if isinstance(record, dict) and record["type"] == "round"]
    first = next(decision for decisions in rounds for decision in decisions if decision.get("trial") == "t0001")
    config = TrainingConfig.model_validate(first["config"])
    return trial_job_name(here.run, TrialIdentity.of(here.run.uid, "t0001", 1, "profile", config))


def job_named(name: str) -> Document:
    container = {"name": "mine", "image": "mine"}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"suspend": True, "template": template},
    }
