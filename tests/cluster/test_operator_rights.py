"""What the operator may do: a run reaches its end with these rules of one namespace and nothing else."""

from pathlib import Path

import pytest

from tests.support.cluster.control_plane import ControlPlane
from tests.support.kube_cluster import apply_run, install_crd, kube_client
from tests.support.operator_process import OperatorProcess
from tests.support.operator_runs import condition, example, gpu_node, is_finished, kubelet_of, wait_for

RULES = [
    {"apiGroups": ["tunewright.dev"], "resources": ["tuningruns"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": ["tunewright.dev"], "resources": ["tuningruns/status"], "verbs": ["patch"]},
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["get", "list", "watch", "create", "patch"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]},
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "create", "patch"]},
    {"apiGroups": [""], "resources": ["events"], "verbs": ["list", "create"]},
]


@pytest.fixture(scope="module", autouse=True)
def crd(own_control_plane: ControlPlane) -> None:
    install_crd(own_control_plane)


def grant(cluster: ControlPlane, namespace: str) -> Path:
    """Create a service account with `RULES` and return its kubeconfig."""
    name = "tunewright"
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": name}, "rules": RULES}
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
    }
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
    cluster.kubectl.apply(account, role, binding, namespace=namespace)
    return cluster.service_account_kubeconfig(namespace, name)


async def test_a_namespaced_role_is_enough(own_control_plane: ControlPlane, tmp_path: Path) -> None:
    namespace = "limited"
    own_control_plane.kubectl("create", "namespace", namespace)
    log = tmp_path / "operator.log"
    operator = OperatorProcess(own_control_plane, namespace, log, grant(own_control_plane, namespace))
    run = apply_run(own_control_plane, namespace, example())
    async with kube_client(own_control_plane) as client, gpu_node(client, namespace) as node:
        with operator:
            async with kubelet_of(client, namespace, node):
                document = await wait_for(client, run, is_finished, operator)
    assert document["status"]["state"] == "Succeeded"
    capacity = condition(document["status"], "CapacityAvailable")
    assert (capacity["status"], capacity["reason"]) == ("Unknown", "NotChecked")
    assert "orbidden" not in log.read_text()
