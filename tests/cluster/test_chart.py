"""The Helm chart, rendered by a real helm and judged by a real API server."""

from typing import Any

import pytest
import yaml

from tests.cluster.test_operator_rights import RULES
from tests.support.cluster.cluster import Cluster
from tests.support.helm import CHART, helm, rendered
from tests.support.kube_cluster import install_crd
from tunewright.adapters.kube.crd import CRD_FILE
from tunewright.adapters.kube.spec.search import LLMSpec
from tunewright.controller.settings import OperatorSettings

OWN_LLM = [
    "--set", "llm.model=openai/qwen3,llm.apiBase=https://llm.example.com/v1,llm.secret.name=llm",
    "--set", "llm.price.inputUSDPerMillionTokens=0.25,llm.price.outputUSDPerMillionTokens=2",
    "--set", "llm.grantSecrets[0].namespace=one,llm.grantSecrets[0].name=llm",
]  # fmt: skip
VALUES = {
    "defaults": [],
    "namespaced": ["--set", "watch.namespaces={one,two}"],
    "customised": [
        "--set", "trial.image=registry.example.com/trial:1", *OWN_LLM,
        "--set", "image.digest=sha256:0000000000000000000000000000000000000000000000000000000000000000",
        "--set", "image.pullSecrets[0].name=regcred", "--set", "priorityClassName=low",
        "--set", "nodeSelector.pool=cpu", "--set", "tolerations[0].operator=Exists",
        "--set", "extraEnv[0].name=HTTPS_PROXY,extraEnv[0].value=http://proxy:3128",
    ],
    "without what others install": [
        "--set", "crds.enabled=false", "--set", "rbac.create=false", "--set", "serviceAccount.create=false",
    ],
}  # fmt: skip


def of_kind(objects: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [item for item in objects if item["kind"] == kind]


def rules(role: dict[str, Any]) -> list[tuple[str, str, frozenset[str]]]:
    found = [
        (group, resource, frozenset(rule["verbs"]))
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    ]
    return sorted(found, key=lambda rule: rule[:2])


def test_lint_has_nothing_to_say() -> None:
    assert "0 chart(s) failed" in helm("lint", "--strict", CHART)


@pytest.mark.parametrize("arguments", VALUES.values(), ids=VALUES.keys())
def test_the_api_server_takes_every_rendering(control_plane: Cluster, namespace: str, arguments: list[str]) -> None:
    objects = rendered(namespace, *arguments)
    for other in ("one", "two"):
        control_plane.kubectl("create", "namespace", other, check=False)
    text = yaml.safe_dump_all(objects)
    control_plane.kubectl("apply", "--server-side", "--dry-run=server", "--force-conflicts", "-f", "-", stdin=text)
    assert of_kind(objects, "Deployment")


def test_the_crd_of_the_chart_is_the_committed_one_and_is_kept() -> None:
    (crd,) = of_kind(rendered("any"), "CustomResourceDefinition")
    assert crd["metadata"].pop("annotations") == {"helm.sh/resource-policy": "keep"}
    assert crd == yaml.safe_load(CRD_FILE.read_text())


def test_the_operator_gets_the_rights_that_a_whole_run_needs_and_no_more() -> None:
    (role,) = of_kind(rendered("any", "--set", "watch.namespaces={one}"), "Role")
    assert rules(role) == rules({"rules": RULES})


def test_a_namespaced_operator_reads_nothing_but_nodes_and_pods_beyond_its_namespaces() -> None:
    (role,) = of_kind(rendered("any", "--set", "watch.namespaces={one}"), "ClusterRole")
    assert rules(role) == [("", "nodes", frozenset({"list"})), ("", "pods", frozenset({"list"}))]


def test_without_a_grant_nothing_may_read_secrets() -> None:
    roles = [role for kind in ("Role", "ClusterRole") for role in of_kind(rendered("any"), kind)]
    assert roles
    assert all("secrets" not in rule["resources"] for role in roles for rule in role["rules"])


@pytest.mark.parametrize("scope", [[], ["--set", "watch.namespaces={one}"]], ids=["cluster", "namespaced"])
def test_a_granted_secret_may_be_read_by_its_name_in_its_namespace_and_nothing_else(scope: list[str]) -> None:
    objects = rendered("any", *OWN_LLM, *scope)
    roles = [role for kind in ("Role", "ClusterRole") for role in of_kind(objects, kind)]
    (role,) = [role for role in roles if any("secrets" in rule["resources"] for rule in role["rules"])]
    assert (role["kind"], role["metadata"]["namespace"]) == ("Role", "one")
    assert role["rules"] == [{"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["llm"], "verbs": ["get"]}]
    bindings = [b for b in of_kind(objects, "RoleBinding") if b["roleRef"]["name"] == role["metadata"]["name"]]
    assert [(b["metadata"]["namespace"], b["subjects"]) for b in bindings] == [
        ("one", [{"kind": "ServiceAccount", "name": "tunewright", "namespace": "any"}])
    ]


def environment_of(objects: list[dict[str, Any]]) -> dict[str, Any]:
    (deployment,) = of_kind(objects, "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return {variable.pop("name"): variable for variable in container["env"]}


def test_the_operator_reads_its_own_endpoint_from_what_the_chart_sets() -> None:
    environment = environment_of(rendered("any", *OWN_LLM))
    price = {"inputUSDPerMillionTokens": "0.25", "outputUSDPerMillionTokens": "2"}
    expected = LLMSpec.parse({"model": "openai/qwen3", "apiBase": "https://llm.example.com/v1", "price": price})
    read = OperatorSettings.from_environment({"TUNEWRIGHT_LLM": environment["TUNEWRIGHT_LLM"]["value"]})
    assert read.llm == expected
    secret = {"secretKeyRef": {"name": "llm", "key": "apiKey"}}
    assert environment["TUNEWRIGHT_LLM_API_KEY"] == {"valueFrom": secret}


def test_without_a_model_the_operator_has_no_endpoint_and_no_key() -> None:
    environment = environment_of(rendered("any", "--set", "llm.secret.name=llm"))
    assert [name for name in environment if "LLM" in name] == []


def test_the_operator_pod_meets_the_restricted_standard(control_plane: Cluster, namespace: str) -> None:
    install_crd(control_plane)
    control_plane.kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
    (deployment,) = of_kind(rendered(namespace), "Deployment")
    template = deployment["spec"]["template"]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "operator"}, "spec": template["spec"]}
    pod["spec"]["serviceAccountName"] = "default"
    control_plane.kubectl("apply", "--dry-run=server", "--namespace", namespace, "-f", "-", stdin=yaml.safe_dump(pod))
