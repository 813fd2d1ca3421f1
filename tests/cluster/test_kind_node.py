"""`make kind-up` without Docker: all of it on a real API server, but for what `docker` and `kind` would do.

These two are stand-ins that write down how they were called; kubectl and helm are real.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.support.cluster.binaries import ensure_go_tool, kubectl_program
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.paths import REPOSITORY
from tests.support.kube_cluster import install_crd, kube_client
from tunewright.adapters.kube.acceptance import accept
from tunewright.adapters.kube.client import NODES
from tunewright.adapters.kube.inventory import find_capacity
from tunewright.domain.catalog_loader import shipped_catalog

FOLDER = REPOSITORY / "examples" / "kind"
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


NODE = "tunewright-control-plane"
WRITES_DOWN = """#!/bin/sh
printf '%s' "$0" | sed 's|.*/||' >> "$CALLS"
for word; do printf " '%s'" "$word" >> "$CALLS"; done
echo >> "$CALLS"
"""
WITHOUT_ROLLOUTS = """
case "$*" in *rollout*) exit 0 ;; esac
exec {kubectl} "$@"
"""
"""No kubelet here would ever say that the operator's Pod is ready."""


class Laptop:
    """A PATH with everything that `up.sh` wants; `calls` is what it ran, in order."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self._programs, self._log = folder / "bin", folder / "calls"
        self._environment = {
            "PATH": f"{self._programs}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(folder),
            "KUBECONFIG": str(cluster.kubeconfig),
            "CALLS": str(self._log),
        }
        self._programs.mkdir()
        self.has("docker", "")
        self.has("kind", "")
        self.has("helm", f'exec {ensure_go_tool("helm")} "$@" --dry-run=server --take-ownership > /dev/null\n')
        self.has("kubectl", WITHOUT_ROLLOUTS.format(kubectl=kubectl_program()))

    def has(self, name: str, then: str) -> None:
        program = self._programs / name
        program.write_text(WRITES_DOWN + then)
        program.chmod(0o755)

    def lacks(self, name: str) -> None:
        """Take a program away, and every folder where another one may lie."""
        (self._programs / name).unlink()
        for needed in ("bash", "dirname"):
            (self._programs / needed).symlink_to(shutil.which(needed) or f"/bin/{needed}")
        self._environment["PATH"] = str(self._programs)

    def up(self) -> subprocess.CompletedProcess[str]:
        self._log.write_text("")
        script = str(FOLDER / "up.sh")
        return subprocess.run([script], env=self._environment, capture_output=True, text=True, check=False)

    @property
    def calls(self) -> list[list[str]]:
        return [shlex.split(line) for line in self._log.read_text().splitlines()]

    def called(self, *words: str) -> list[list[str]]:
        """The calls that begin with these words."""
        return [call for call in self.calls if tuple(call[: len(words)]) == words]


@pytest.fixture
def laptop(control_plane: Cluster, tmp_path: Path) -> Iterator[Laptop]:
    """A laptop whose kind cluster is the tests' own."""
    control_plane.kubectl.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
    yield Laptop(control_plane, tmp_path)
    control_plane.kubectl("delete", "node", NODE, "--ignore-not-found")


def option(call: list[str], name: str) -> str:
    return call[call.index(name) + 1]


def test_up_makes_the_cluster_loads_what_it_built_and_installs_that(laptop: Laptop, control_plane: Cluster) -> None:
    done = laptop.up()
    assert done.returncode == 0, done.stderr
    assert "kubectl apply -f examples/kind/tuningrun.yaml" in done.stdout.splitlines()[-1]
    ((*_, config, _, _),) = laptop.called("kind", "create", "cluster")
    made = yaml.safe_load((REPOSITORY / config).read_text())
    assert f"{made['name']}-control-plane" == NODE
    assert control_plane.kubectl.get("node", NODE)["metadata"]["labels"]["amd.com/gpu.device-id"] == "75a3"
    base, *images = [option(call, "--tag") for call in laptop.called("docker", "build")]
    (loaded,) = laptop.called("kind", "load", "docker-image", "--name", made["name"])
    assert loaded[5:] == images, "the base stays outside"
    (chart,) = laptop.called("helm", "upgrade", "--install", "tunewright")
    settings = dict(word.split("=") for word in chart if "=" in word)
    assert [f"{settings['image.repository']}:{settings['image.tag']}", settings["trial.image"]] == images
    assert f"TRIAL_BASE_IMAGE={base}" in laptop.called("docker", "build", "--target", "trial")[0]
    assert laptop.called("kubectl", "--namespace", "tunewright", "rollout", "restart", "deployment/tunewright")


def test_what_is_built_is_there(laptop: Laptop) -> None:
    laptop.up()
    for call in laptop.called("docker", "build"):
        file = REPOSITORY / (option(call, "--file") if "--file" in call else "Dockerfile")
        stages = re.findall(r"^FROM \S+ AS (\S+)$", file.read_text(), re.MULTILINE)
        assert (REPOSITORY / call[-1]).is_dir(), "the folder that is sent"
        assert "--target" not in call or option(call, "--target") in stages


@pytest.mark.long
def test_kind_and_kubectl_have_the_options_that_they_are_called_with(laptop: Laptop) -> None:
    laptop.up()
    for program, path in (("kind", ensure_go_tool("kind")), ("kubectl", kubectl_program())):
        assert laptop.called(program)
        for _, *words in laptop.called(program):
            done = subprocess.run([str(path), *words, "--help"], capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{program} {words}: {done.stderr}"


def test_up_again_leaves_the_cluster_as_it_is(laptop: Laptop) -> None:
    laptop.has("kind", 'case "$*" in "get clusters") echo another; echo tunewright; echo third ;; esac\n')
    done = laptop.up()
    assert done.returncode == 0, done.stderr
    assert laptop.called("kind", "create") == []
    assert laptop.called("kind", "export", "kubeconfig", "--name", "tunewright")
    assert len(laptop.called("docker", "build")) == 3


def test_an_engine_that_does_not_answer_ends_it_before_anything_is_made(laptop: Laptop) -> None:
    laptop.has("kind", 'echo "Cannot connect to the Docker daemon" >&2; exit 1\n')
    done = laptop.up()
    assert done.returncode == 1
    assert "Cannot connect to the Docker daemon" in done.stderr
    assert [call[0] for call in laptop.calls] == ["kind"]


@pytest.mark.parametrize("program", ["kind", "helm"])
def test_a_missing_program_is_named(laptop: Laptop, program: str) -> None:
    laptop.lacks(program)
    done = laptop.up()
    assert (done.returncode, done.stderr) == (1, f"kind-up: {program} is missing: install it first\n")
    assert laptop.calls == []
