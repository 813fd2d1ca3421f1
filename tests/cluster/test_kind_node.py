"""The part of `make kind-up` that needs no Docker: a node of a real API server made to stand in for eight MI355X."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.cluster.cluster import Cluster
from tests.support.kube_cluster import install_crd, kube_client
from tunewright.adapters.kube.acceptance import accept
from tunewright.adapters.kube.client import NODES
from tunewright.adapters.kube.inventory import find_capacity
from tunewright.domain.catalog_loader import shipped_catalog

FOLDER = Path(__file__).parents[2] / "examples" / "kind"
RUN = FOLDER / "tuningrun.yaml"


def stand_in(cluster: Cluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig), "PATH": _path_with_kubectl()}
    script = str(FOLDER / "stand-in-gpus.sh")
    return subprocess.run([script, *arguments], env=environment, capture_output=True, text=True, check=False)


def _path_with_kubectl() -> str:
    return f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


async def test_a_node_of_kind_has_room_for_the_example(control_plane: Cluster, namespace: str) -> None:
    accepted = accept(yaml.safe_load(RUN.read_text()), shipped_catalog(), default_image="trial")
    name = f"kind-{namespace}"
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
    async with kube_client(control_plane) as client:
        await client.create(NODES, "", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
        try:
            await client.patch(NODES, "", name, {"status": {"conditions": [ready]}}, subresource="status")
            await client.patch(NODES, "", name, {"spec": {"taints": None}})
            for _ in range(2):  # a second time changes nothing
                done = stand_in(control_plane, name)
                assert done.returncode == 0, done.stderr
            node = await client.find(NODES, "", name)
            assert node is not None
            assert node["metadata"]["labels"]["amd.com/gpu.device-id"] == "75a3"
            assert node["status"]["allocatable"]["amd.com/gpu"] == "8"
            assert (await find_capacity(client, accepted.pod_options, 1)).available
        finally:
            await client.delete(NODES, "", name)


def test_the_example_is_taken_by_the_api_server(control_plane: Cluster, namespace: str) -> None:
    install_crd(control_plane)
    control_plane.kubectl("apply", "--namespace", namespace, "--dry-run=server", "--filename", str(RUN))


def test_a_missing_node_is_told(control_plane: Cluster) -> None:
    assert "usage: stand-in-gpus.sh NODE" in stand_in(control_plane).stderr
    assert stand_in(control_plane, "absent").returncode == 1


@pytest.mark.parametrize("script", sorted(FOLDER.glob("*.sh")), ids=lambda path: path.name)
def test_scripts_are_shell(script: Path) -> None:
    done = subprocess.run(["bash", "-n", str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert os.access(script, os.X_OK)
