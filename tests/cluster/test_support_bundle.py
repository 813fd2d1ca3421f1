"""`tunewright support-bundle` against a real API server: what it finds, what it leaves out, what it may not read."""

import asyncio
import tarfile
from pathlib import Path

import pytest
import yaml

from tests.support.cluster.cluster import Cluster
from tests.support.kube_cluster import apply_run, kube_client
from tests.support.kube_documents import a_tuning_run
from tests.support.records import a_header, an_advice
from tunewright.adapters.kube import labels
from tunewright.adapters.kube.ledger import ConfigMapLedger
from tunewright.adapters.ledger.file import read_ledger
from tunewright.adapters.ledger.lines import decode_lines
from tunewright.cli.support_bundle import run_support_bundle

pytestmark = pytest.mark.usefixtures("crd")

SECRET = "hunter2-and-more"


@pytest.fixture
def unpacked(tmp_path: Path, control_plane: Cluster, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KUBECONFIG", str(control_plane.kubeconfig))
    return tmp_path


async def written_run(cluster: Cluster, namespace: str) -> None:
    env = [{"name": "HF_TOKEN", "value": SECRET}]
    run = apply_run(cluster, namespace, a_tuning_run(trial={"image": "example.com/trial:1", "env": env}))
    cluster.kubectl("create", "secret", "generic", "llm", "--namespace", namespace, f"--from-literal=apiKey={SECRET}")
    async with kube_client(cluster) as client:
        await ConfigMapLedger(client, run, decode_lines).append([a_header(run_uid=run.uid), an_advice(1)])


def bundle(key: str, folder: Path) -> Path:
    run_support_bundle(key, folder / "bundle.tar.gz", "tunewright")
    with tarfile.open(folder / "bundle.tar.gz") as tar:
        tar.extractall(folder, filter="data")
    return folder / key.partition("/")[2]


def add_pod(cluster: Cluster, namespace: str) -> None:
    """A trial's Pod that no node runs yet."""
    container = {"name": "trial", "image": "example.com/trial:1", "env": [{"name": "HF_TOKEN", "value": SECRET}]}
    own = {labels.MANAGED_BY: labels.MANAGER, labels.RUN: "tiny"}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "tiny-t0001-a1-abcdef", "namespace": namespace, "labels": own},
        "spec": {"containers": [container], "nodeSelector": {"absent": "true"}},
    }
    cluster.kubectl.apply(pod)


async def make(cluster: Cluster, namespace: str, folder: Path) -> Path:
    await written_run(cluster, namespace)
    add_pod(cluster, namespace)
    # In a thread of its own: the command runs its own event loop.
    return await asyncio.to_thread(bundle, f"{namespace}/tiny", folder)


async def test_a_bundle_has_run_and_ledger_and_no_secret(
    control_plane: Cluster, namespace: str, unpacked: Path
) -> None:
    folder = await make(control_plane, namespace, unpacked)
    assert len(read_ledger(folder / "ledger.jsonl")) == 2
    run = yaml.safe_load((folder / "run.yaml").read_text())
    assert run["spec"]["workload"]["model"] == {"preset": "tiny-quickstart"}
    assert (folder / "summary.txt").read_text().startswith(f"{namespace}/tiny: no status")
    assert "pods.yaml" in {path.name for path in folder.iterdir()}
    assert all(SECRET not in path.read_text() for path in folder.rglob("*") if path.is_file())


async def test_a_run_that_is_not_there_is_told(control_plane: Cluster, namespace: str, unpacked: Path) -> None:
    folder = await asyncio.to_thread(bundle, f"{namespace}/absent", unpacked)
    assert f"run: {namespace}/absent is not there" in (folder / "summary.txt").read_text()
    assert not (folder / "run.yaml").exists()
