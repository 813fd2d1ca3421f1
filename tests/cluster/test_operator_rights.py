"""What the operator may do: a run reaches its end with these rules of one namespace and nothing else."""

from pathlib import Path

import pytest
import yaml

from tests.cluster.test_operator_llm import KEY, asking, finished_status
from tests.support.cluster.control_plane import ControlPlane
from tests.support.helm import rendered
from tests.support.kube_cluster import apply_run, kube_client
from tests.support.openai_server import proposals, serving
from tests.support.operator_process import OperatorProcess
from tests.support.operator_runs import condition, example, gpu_node, is_finished, kubelet_of, wait_for
from tunewright.adapters.kube.prewarm import NO_NODE

pytestmark = pytest.mark.usefixtures("own_crd")

RULES = [
    {"apiGroups": ["tunewright.dev"], "resources": ["tuningruns"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": ["tunewright.dev"], "resources": ["tuningruns/status"], "verbs": ["patch"]},
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["get", "list", "watch", "create", "patch", "delete"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]},
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "create", "patch"]},
    {"apiGroups": [""], "resources": ["services"], "verbs": ["get", "create"]},
    {"apiGroups": [""], "resources": ["events"], "verbs": ["list", "create"]},
]


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
    two_nodes = {"nodes": 2, "gpusPerNode": 4, "accelerator": {"preset": "mi355x"}}
    run = apply_run(own_control_plane, namespace, example(cluster=two_nodes, trial={"prewarm": True}))
    async with kube_client(own_control_plane) as client, gpu_node(client, namespace) as node:
        with operator:
            async with kubelet_of(client, namespace, node):
                document = await wait_for(client, run, is_finished, operator)
    assert document["status"]["state"] == "Succeeded"
    assert document["status"]["best"]["measured"]["nodes"] == 2
    said = [event["message"] for event in own_control_plane.kubectl.get("events", namespace=namespace)["items"]]
    assert f"{NO_NODE}: trials pull it themselves" in said
    capacity = condition(document["status"], "CapacityAvailable")
    assert (capacity["status"], capacity["reason"]) == ("Unknown", "NotChecked")
    assert "orbidden" not in log.read_text()


async def test_with_the_charts_grant_the_key_is_read_from_that_secret_and_from_no_other(
    own_control_plane: ControlPlane, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    namespace, kubectl = "granted", own_control_plane.kubectl
    kubectl("create", "namespace", namespace)
    kubectl("create", "secret", "generic", "llm", f"--from-literal=apiKey={KEY}", "-n", namespace)
    kubectl("create", "secret", "generic", "other", "--from-literal=apiKey=another", "-n", namespace)
    grant = f"llm.grantSecrets[0].namespace={namespace},llm.grantSecrets[0].name=llm"
    scope = f"watch.namespaces={{{namespace}}}"
    objects = rendered(namespace, "--set", scope, "--set", grant, "--set", "crds.enabled=false")
    rights = yaml.safe_dump_all(item for item in objects if item["kind"] not in ("Deployment", "Pod"))
    kubectl("apply", "-f", "-", stdin=rights)
    request.addfinalizer(lambda: kubectl("delete", "--wait=false", "-f", "-", stdin=rights))  # some are the cluster's
    account = f"--as=system:serviceaccount:{namespace}:tunewright"
    for secret, answer in (("llm", "yes"), ("other", "no")):
        answered = kubectl("auth", "can-i", "get", f"secret/{secret}", "-n", namespace, account, check=False)
        assert answered.strip() == answer
    kubeconfig = own_control_plane.service_account_kubeconfig(namespace, "tunewright")
    with serving(proposals({"tensor_parallel_size": 4, "micro_batch_size": 2})) as server:
        document, log = asking(server.api_base), tmp_path / "operator.log"
        document["spec"]["trial"] = {"prewarm": True}
        status, _ = await finished_status(own_control_plane, namespace, document, log, kubeconfig)
    said = [event["message"] for event in kubectl.get("events", namespace=namespace)["items"]]
    assert "the trial image is on 1 of 1 node(s)" in said
    assert condition(status, "AdvisorAvailable")["status"] == "True"
    assert {seen.headers["authorization"] for seen in server.requests} == {f"Bearer {KEY}"}
    assert "orbidden" not in log.read_text()
