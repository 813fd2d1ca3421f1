"""The harness's own smoke test: what answers is a real API server with CEL, controllers and RBAC."""

import json
from collections.abc import Iterator

import pytest

from tests.support.cluster.cluster import Cluster
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.errors import KubectlFailed
from tests.support.cluster.kubectl import Kubectl
from tests.support.cluster.waiting import wait_until

GPUS = {
    "type": "object",
    "properties": {"count": {"type": "integer"}},
    "x-kubernetes-validations": [{"rule": "self.count % 8 == 0", "message": "whole nodes only"}],
}
SMOKE_CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "smokes.harness.tunewright.test"},
    "spec": {
        "group": "harness.tunewright.test",
        "names": {"kind": "Smoke", "plural": "smokes"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"gpus": GPUS}}},
            }
        ],
    },
}


def smoke(count: int) -> dict[str, object]:
    return {
        "apiVersion": "harness.tunewright.test/v1",
        "kind": "Smoke",
        "metadata": {"name": "smoke"},
        "gpus": {"count": count},
    }


def test_the_api_server_tells_its_version(control_plane: Cluster) -> None:
    version = json.loads(control_plane.kubectl("version", "--output=json"))["serverVersion"]

    assert (int(version["major"]), int(version["minor"])) >= (1, 30)


@pytest.fixture
def smoke_crd(control_plane: Cluster) -> Iterator[None]:
    control_plane.kubectl.apply(SMOKE_CRD)
    control_plane.kubectl("wait", "--for=condition=Established", "crd/smokes.harness.tunewright.test")
    yield
    control_plane.kubectl("delete", "crd", "smokes.harness.tunewright.test", "--wait=false")


@pytest.mark.usefixtures("smoke_crd")
def test_a_cel_rule_rejects_an_object(control_plane: Cluster, namespace: str) -> None:
    control_plane.kubectl.apply(smoke(16), namespace=namespace)
    with pytest.raises(KubectlFailed, match="whole nodes only"):
        control_plane.kubectl.apply(smoke(12), namespace=namespace)


def test_the_job_controller_creates_a_pod(control_plane: Cluster, namespace: str) -> None:
    pod = {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}], "nodeSelector": {"no": "node"}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": {"template": {"spec": pod}}}
    control_plane.kubectl.apply(job, namespace=namespace)

    def pods() -> list[object]:
        found: list[object] = control_plane.kubectl.get("pods", "--selector=job-name=a", namespace=namespace)["items"]
        return found

    assert len(wait_until(pods, "the Job's Pod exists", timeout=60)) == 1


def test_a_service_account_has_no_rights_of_its_own(own_control_plane: ControlPlane) -> None:
    account = Kubectl(own_control_plane.service_account_kubeconfig("default", "default"))

    with pytest.raises(KubectlFailed, match="forbidden"):
        account("get", "pods")


def test_objects_survive_a_restart_of_the_api_server(own_control_plane: ControlPlane) -> None:
    own_control_plane.kubectl("create", "configmap", "kept", "--from-literal=a=b")

    own_control_plane.restart_api_server()

    assert own_control_plane.kubectl.get("configmap", "kept")["data"] == {"a": "b"}
