"""A real Argo CD takes CRD, chart and runs from a git repository, with the Applications of `examples/argo-cd`.

The operator acts with the rights that the synced chart gives it.
"""

import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.argo_cd_files import FOLDER
from tests.support.argo_cd_team import Platform, Team, eventually, is_synced, phase
from tests.support.cluster.argo_cd import ArgoCD
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.git_repository import GitRepository
from tests.support.cluster.paths import REPOSITORY
from tests.support.cluster.reporting import or_skip
from tests.support.kube_cluster import kube_client
from tests.support.kube_documents import a_tuning_run
from tests.support.operator_process import OperatorProcess
from tests.support.operator_runs import condition, example, is_finished
from tests.support.operator_scene import Gate, Scene, is_so
from tunewright.adapters.kube import labels
from tunewright.adapters.kube.client import CONFIG_MAPS, JOBS, TUNING_RUNS, KubeClient
from tunewright.adapters.kube.crd import CRD_FILE
from tunewright.adapters.kube.names import RunReference

Document = dict[str, Any]

IGNORE_HEALTH = {"argocd.argoproj.io/ignore-healthcheck": "true"}
SHORT: Document = {
    "budget": {"maxTrials": 3},
    "validation": {"topK": 1, "steps": 5},
    "results": {"keep": True},
}


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    cluster = or_skip(ControlPlane().start)
    try:
        settings = yaml.safe_load((FOLDER / "argocd-cm.yaml").read_text())["data"]
        argo_cd = or_skip(ArgoCD(cluster, settings).start)
        try:
            repository = or_skip(lambda: a_repository(tmp_path_factory.mktemp("git")))
            yield Platform(cluster, argo_cd, repository)
        finally:
            argo_cd.stop()
    finally:
        cluster.stop()


def a_repository(folder: Path) -> GitRepository:
    """Make a repository with the chart, and with the CRD of an earlier version."""
    repository = GitRepository(folder)
    shutil.copytree(REPOSITORY / "charts" / "tunewright", folder / "charts" / "tunewright", symlinks=True)
    (folder / "crds").mkdir()
    write_crd(repository, without="requireValidated")
    repository.commit()
    return repository


def write_crd(repository: GitRepository, without: str = "") -> None:
    crd = yaml.safe_load(CRD_FILE.read_text())
    properties = pod_properties(crd)
    assert not without or properties.pop(without)
    (repository.folder / "crds" / CRD_FILE.name).write_text(yaml.safe_dump(crd))


def pod_properties(crd: Document) -> Document:
    (version,) = crd["spec"]["versions"]
    found: Document = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["pod"]["properties"]
    return found


async def install(platform: Platform, client: KubeClient) -> None:
    """Let Argo CD install CRD and operator, as a person would: once, before any run."""
    platform.apply(platform.application("crds"), platform.application("operator"))
    for name in ("tunewright-crds", "tunewright"):
        await platform.until(client, name, lambda status: status.get("sync", {}).get("status") == "Synced", "synced")


@dataclass(frozen=True)
class Place:
    """A team, its operator and its node."""

    team: Team
    scene: Scene

    async def of_git(self, name: str) -> None:
        """From now on it is about this run, which Argo CD has created."""
        found = await self.run(name)
        assert found is not None
        self.scene.run = RunReference(self.team.namespace, name, found["metadata"]["uid"])

    async def run(self, name: str = "tiny") -> Document | None:
        return await self.scene.client.find(TUNING_RUNS, self.team.namespace, name)

    async def until_run(self, is_wanted: Callable[[Document], object]) -> None:
        async def look() -> object:
            found = await self.run()
            return found is not None and is_wanted(found["spec"])

        await eventually(look)

    async def jobs(self) -> set[str]:
        return {job["metadata"]["name"] for job in await self.scene.client.list(JOBS, self.team.namespace)}


@asynccontextmanager
async def a_place(platform: Platform, namespace: str, log: Path, gate: Gate) -> AsyncIterator[Place]:
    async with kube_client(platform.cluster) as client:
        await install(platform, client)
        team = Team(platform, client, namespace)
        team.start()
        rights = platform.cluster.service_account_kubeconfig("tunewright", "tunewright")
        operator = OperatorProcess(platform.cluster, namespace, log, kubeconfig=rights)
        async with Scene(platform.cluster, namespace, operator, gate) as scene:
            yield Place(team, scene)


async def test_a_run_in_git_is_followed_healed_and_left_to_work(platform: Platform, tmp_path: Path) -> None:
    async with a_place(platform, "team-a", tmp_path / "operator.log", gate := Gate(passing=1)) as place:
        team, scene = place.team, place.scene
        team.write("tiny.yaml", example(**SHORT))
        await team.push_synced()
        await place.of_git("tiny")
        drifts = await team.drifts()

        # The operator writes status, ledger and Jobs: for Argo CD nothing has changed.
        await scene.until_running(2)
        status = await team.compared_again()
        assert (status["sync"]["status"], status["health"]["status"]) == ("Synced", "Progressing")
        assert await team.drifts() == drifts

        # A field that git does not render is left to people on call.
        await scene.change({"suspend": True})
        await team.until_health("Suspended")
        status = await team.compared_again()
        assert (status["sync"]["status"], status["health"]["status"]) == ("Synced", "Suspended")
        assert ((await place.run()) or {})["spec"]["suspend"] is True
        await scene.change({"suspend": None})
        await team.until_health("Progressing")
        assert await team.drifts() == drifts

        # A hand edit of what git renders is put back.
        await scene.change({"budget": {"maxTrials": 8}})
        await place.until_run(lambda spec: spec["budget"]["maxTrials"] == 3)
        assert await team.drifts() == drifts + 1

        # A sync with prune leaves the Jobs alone: the one that has ended, and the one that runs.
        await scene.until_running(3)
        jobs = await place.jobs()
        team.write("notes.yaml", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "notes"}})
        status = await team.push_synced()
        assert status["operationState"]["operation"]["sync"]["prune"] is True
        assert len(jobs) >= 2
        assert await place.jobs() >= jobs

        # The end.
        gate.is_open = True
        answer = (await scene.until(is_finished))["answer"]
        status = await team.until_health("Healthy")
        tracked = {item["kind"]: item for item in status["resources"]}
        assert set(tracked) == {"TuningRun", "ConfigMap"}, "nothing of the operator's is counted to the Application"
        assert tracked["TuningRun"]["health"] == {"status": "Healthy", "message": answer}
        assert await team.drifts() == drifts + 2, "the hand edit and the commit, but none of the operator's writes"
        assert await place.jobs() > jobs
        kept = await own_config_maps(scene.client, team.namespace)
        assert {item["metadata"]["name"] for item in kept} >= {"tiny-result", "tiny-ledger-0000"}
        assert all("ownerReferences" not in item["metadata"] for item in kept)
        assert {key for item in kept for key in marks(item)} == OWN_MARKS, "no copied label or tracking id"

        # Removed from git, the run goes with its Jobs; what is to be kept stays.
        team.remove("tiny.yaml")
        team.remove("notes.yaml")
        await team.push_synced()
        assert await place.run() is None

        async def no_job_is_left() -> bool:
            return not await place.jobs()

        await is_so(no_job_is_left)
        assert await own_config_maps(scene.client, team.namespace) == kept


OWN_MARKS = {labels.MANAGED_BY, labels.RUN, labels.RUN_UID, labels.COMPONENT, labels.KEPT}


def marks(item: Document) -> set[str]:
    metadata = item["metadata"]
    return {*metadata.get("labels", {}), *metadata.get("annotations", {})}


async def own_config_maps(client: KubeClient, namespace: str) -> list[Document]:
    found = await client.list(CONFIG_MAPS, namespace, labels=labels.OWN_OBJECTS)
    return sorted(found, key=lambda item: str(item["metadata"]["name"]))


async def test_the_crd_goes_first_and_what_is_wrong_in_git_is_told(platform: Platform, tmp_path: Path) -> None:
    async with a_place(platform, "team-b", tmp_path / "operator.log", Gate()) as place:
        team, scene = place.team, place.scene
        team.write("tiny.yaml", example(suspend=True))
        await team.push_synced()
        await place.of_git("tiny")
        await team.until_health("Suspended")
        drifts = await team.drifts()

        # The CRD is upgraded in its own Application; runs that know nothing of the new field stay Synced.
        crd = ["crd", "tuningruns.tunewright.dev"]
        assert "requireValidated" not in pod_properties(platform.cluster.kubectl.get(*crd))
        write_crd(platform.repository)
        commit = await team.push()
        await platform.until(scene.client, "tunewright-crds", lambda status: is_synced(status, commit), "upgraded")
        assert "requireValidated" in pod_properties(platform.cluster.kubectl.get(*crd))
        assert (await team.compared_again())["sync"]["status"] == "Synced"
        assert await team.drifts() == drifts
        team.write("tiny.yaml", example(suspend=True, pod={"requireValidated": True}))
        await team.push_synced()
        await place.until_run(lambda spec: spec["pod"]["requireValidated"])
        drifts = await team.drifts()

        # Where git renders suspend, a hand edit of it is put back; the annotation is not, and wins.
        await scene.change(annotations={labels.SUSPEND: "false"})
        await team.until_health("Progressing")
        assert (await team.compared_again())["sync"]["status"] == "Synced"
        assert await team.drifts() == drifts
        await scene.change({"suspend": False})
        await place.until_run(lambda spec: spec["suspend"])

        # What defines the search cannot be changed in git: the sync fails, and says why.
        team.write("tiny.yaml", example(suspend=True, randomSeed=1))
        await team.push()
        status = await team.until(lambda status: phase(status) == "Failed", "refused")
        told = status["operationState"]["message"]
        assert '"tiny" is invalid: spec.randomSeed: ' in told
        assert "is immutable: create a TuningRun with another name" in told
        assert "SyncError" in {item["type"] for item in status["conditions"]}
        assert ((await place.run()) or {})["spec"]["randomSeed"] == 0
        team.write("tiny.yaml", example(suspend=True))
        await team.push_synced()

        # A run that is not accepted degrades the Application, unless it is told not to.
        wrong = a_tuning_run("wrong", baseline={"tensorParallelSize": 3})
        team.write("wrong.yaml", wrong)
        await team.push_synced()
        status = await team.until_health("Degraded")
        (told,) = [item["health"]["message"] for item in status["resources"] if item["name"] == "wrong"]
        assert told.startswith("not accepted: ")
        assert "tensor-divides-heads" in told
        refused = condition(((await place.run("wrong")) or {})["status"], "Accepted")
        assert refused["message"] in told
        wrong["metadata"]["annotations"] = IGNORE_HEALTH
        team.write("wrong.yaml", wrong)
        await team.push_synced()
        await team.until_health("Progressing")
