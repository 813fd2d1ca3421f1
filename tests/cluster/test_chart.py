"""The Helm chart, rendered by a real helm, held against golden files and judged by a real API server.

`tests/golden/chart/NAME.values.yaml` are the value sets; `TUNEWRIGHT_UPDATE_GOLDEN=1` writes their renderings anew.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.test_operator_rights import RULES
from tests.docs.blocks import ROOT, blocks
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.errors import KubectlFailed
from tests.support.cluster.waiting import wait_until
from tests.support.helm import CHART, PREVIOUS_CHART, WITHOUT_CLUSTER, helm, is_test_hook, refused, rendered
from tests.support.kube_cluster import install_crd
from tunewright.adapters.catalog import catalog_of
from tunewright.adapters.kube.crd import CRD_FILE
from tunewright.adapters.kube.spec.search import LLMSpec
from tunewright.adapters.kube.spec.trial import PodSpec
from tunewright.controller.settings import OperatorSettings

Document = dict[str, Any]
GOLDEN = Path(__file__).parents[1] / "golden" / "chart"
NAMES = sorted(file.name.removesuffix(".values.yaml") for file in GOLDEN.glob("*.values.yaml"))
CRD = "CustomResourceDefinition"
HELMS = ["helm", "helm3"]


def values(name: str) -> list[str]:
    return ["--values", str(GOLDEN / f"{name}.values.yaml")]


def of_kind(objects: list[Document], kind: str) -> list[Document]:
    return [item for item in objects if item["kind"] == kind and not is_test_hook(item)]


def rules(role: Document) -> list[tuple[str, str, frozenset[str]]]:
    found = [
        (group, resource, frozenset(rule["verbs"]))
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    ]
    return sorted(found, key=lambda rule: rule[:2])


def operator_pod(objects: list[Document]) -> Document:
    (deployment,) = of_kind(objects, "Deployment")
    spec: Document = deployment["spec"]["template"]["spec"]
    return spec


def environment_of(objects: list[Document]) -> dict[str, Document]:
    (container,) = operator_pod(objects)["containers"]
    return {
        variable["name"]: {key: value for key, value in variable.items() if key != "name"}
        for variable in container["env"]
    }


def settings_of(objects: list[Document]) -> OperatorSettings:
    """What the operator reads from what the chart sets."""
    return OperatorSettings.from_environment(
        {name: variable["value"] for name, variable in environment_of(objects).items() if "value" in variable}
    )


def test_lint_has_nothing_to_say() -> None:
    assert "0 chart(s) failed" in helm("lint", "--strict", CHART)


@pytest.mark.parametrize("program", HELMS)
@pytest.mark.parametrize("name", NAMES)
def test_the_rendering_is_the_golden_one(name: str, program: str) -> None:
    objects = [item for item in rendered("tuning", *values(name), program=program) if item["kind"] != CRD]
    file = GOLDEN / f"{name}.yaml"
    if os.environ.get("TUNEWRIGHT_UPDATE_GOLDEN"):
        file.write_text(yaml.safe_dump_all(objects, sort_keys=False, width=110))
    assert objects == list(yaml.safe_load_all(file.read_text()))


@pytest.mark.parametrize("name", NAMES)
def test_the_api_server_takes_every_rendering(control_plane: Cluster, namespace: str, name: str) -> None:
    objects = rendered(namespace, *values(name))
    for other in ("one", "two"):
        control_plane.kubectl("create", "namespace", other, check=False)
    text = yaml.safe_dump_all(one for one in objects if one["kind"] != "Pod")  # its account would have to be there
    control_plane.kubectl("apply", "--server-side", "--dry-run=server", "--force-conflicts", "-f", "-", stdin=text)
    assert of_kind(objects, "Deployment")


def test_the_operator_finds_presets_of_ones_own_where_the_chart_mounts_them(tmp_path: Path) -> None:
    objects = rendered("any", *values("customised"))
    pod = operator_pod(objects)
    (volume,) = [one["configMap"] for one in pod["volumes"] if one["name"] == "catalog"]
    (texts,) = [one["data"] for one in of_kind(objects, "ConfigMap") if one["metadata"]["name"] == volume["name"]]
    (mount,) = [one for one in pod["containers"][0]["volumeMounts"] if one["name"] == "catalog"]
    assert mount["readOnly"]
    assert environment_of(objects)["TUNEWRIGHT_CATALOG"] == {"value": mount["mountPath"]}
    for item in volume["items"]:  # as a kubelet lays them out
        (tmp_path / item["path"]).parent.mkdir(exist_ok=True)
        (tmp_path / item["path"]).write_text(texts[item["key"]])
    catalog = catalog_of({"TUNEWRIGHT_CATALOG": str(tmp_path)})
    assert catalog.default_network_for("mi355x-1000w").name == "our-fabric-v1.2"


def test_other_presets_are_another_pod() -> None:
    def catalog_volume(device: str) -> str:
        objects = rendered("any", "--set", f"catalog.accelerators.{device}=name: {device}")
        return str([one for one in operator_pod(objects)["volumes"] if one["name"] == "catalog"])

    assert catalog_volume("ours") == catalog_volume("ours") != catalog_volume("theirs")


def test_the_command_of_the_guide_gives_the_chart_the_files(tmp_path: Path) -> None:
    guide = [block for block in blocks() if block.page == ROOT / "docs/guides/own-accelerator.md"]
    for block in guide:
        if block.mark == "file":
            (tmp_path / block.words).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / block.words).write_text(block.text)
    (command,) = [words for block in guide for words in block.commands if words[0] == "helm"]
    given = [word.replace("=catalog/", f"={tmp_path}/catalog/") for word in command if word.startswith("catalog.")]
    objects = rendered("any", *(part for word in given for part in ("--set-file", word)))
    (texts,) = [one["data"] for one in of_kind(objects, "ConfigMap") if "-catalog-" in one["metadata"]["name"]]
    assert texts == {
        "accelerators.mi355x-1000w.yaml": (tmp_path / "catalog/accelerators/mi355x-1000w.yaml").read_text(),
        "networks.our-fabric.yaml": (tmp_path / "catalog/networks/our-fabric.yaml").read_text(),
    }


def test_the_crd_of_the_chart_is_the_committed_one_and_is_kept() -> None:
    (crd,) = of_kind(rendered("any"), CRD)
    assert crd["metadata"].pop("annotations") == {"helm.sh/resource-policy": "keep"}
    assert crd == yaml.safe_load(CRD_FILE.read_text())


@pytest.mark.parametrize("program", HELMS)
@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("image.tagg=1", "additional properties 'tagg' not allowed"),
        ("trial.pod.queue=tuning", "additional properties 'queue' not allowed"),
        ("trial.networkProfile=nosuch", "nosuch is none of trial.networkProfiles: pollara, roce, sockets"),
        ("networkPolicy.trials=true", "networkPolicy.trials: needs watch.namespaces"),
    ],
)
def test_helm_refuses_a_value_that_is_wrong_and_names_it(setting: str, words: str, program: str) -> None:
    assert words in refused("template", CHART, *WITHOUT_CLUSTER, "--set", setting, program=program)


def test_the_operator_gets_the_rights_that_a_whole_run_needs_and_no_more() -> None:
    (role,) = of_kind(rendered("any", "--set", "watch.namespaces={one}"), "Role")
    assert rules(role) == rules({"rules": RULES})


def test_a_namespaced_operator_reads_nothing_but_nodes_and_pods_beyond_its_namespaces() -> None:
    objects = rendered("any", "--set", "watch.namespaces={one}")
    (binding,) = of_kind(objects, "ClusterRoleBinding")
    (role,) = [one for one in of_kind(objects, "ClusterRole") if one["metadata"]["name"] == binding["roleRef"]["name"]]
    assert rules(role) == [("", "nodes", frozenset({"list"})), ("", "pods", frozenset({"list"}))]


def test_who_may_edit_a_namespace_may_tune_there(control_plane: Cluster, namespace: str) -> None:
    roles = [one for one in of_kind(rendered(namespace), "ClusterRole") if "aggregate" in str(one["metadata"])]
    assert len(roles) == 2
    install_crd(control_plane)
    control_plane.kubectl.apply(*roles)
    try:
        control_plane.kubectl("create", "rolebinding", "ed", "--clusterrole=edit", "--user=ed", "-n", namespace)
        control_plane.kubectl("create", "rolebinding", "vi", "--clusterrole=view", "--user=vi", "-n", namespace)
        wait_until(lambda: may(control_plane, namespace, "ed", "create"), "the roles are aggregated")
        said = [may(control_plane, namespace, who, verb) for who, verb in WHO_ELSE_MAY]
    finally:
        control_plane.kubectl("delete", "clusterrole", *[role["metadata"]["name"] for role in roles])
    assert said == list(WHO_ELSE_MAY.values())


WHO_ELSE_MAY = {
    ("ed", "list"): True,
    ("vi", "list"): True,
    ("vi", "create"): False,
    ("nobody", "list"): False,
}


def may(cluster: Cluster, namespace: str, who: str, verb: str) -> bool:
    words = ["auth", "can-i", verb, "tuningruns.tunewright.dev", "-n", namespace, f"--as={who}"]
    return cluster.kubectl(*words, check=False).strip() == "yes"


def test_without_a_grant_nothing_may_read_secrets() -> None:
    roles = [role for kind in ("Role", "ClusterRole") for role in of_kind(rendered("any"), kind)]
    assert roles
    assert all("secrets" not in rule["resources"] for role in roles for rule in role["rules"])


@pytest.mark.parametrize("scope", [[], ["--set", "watch.namespaces={one}"]], ids=["cluster", "namespaced"])
def test_a_granted_secret_may_be_read_by_its_name_in_its_namespace_and_nothing_else(scope: list[str]) -> None:
    objects = rendered("any", *values("customised"), *scope)
    roles = [role for kind in ("Role", "ClusterRole") for role in of_kind(objects, kind)]
    (role,) = [role for role in roles if any("secrets" in rule["resources"] for rule in role["rules"])]
    assert (role["kind"], role["metadata"]["namespace"]) == ("Role", "one")
    assert role["rules"] == [{"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["llm"], "verbs": ["get"]}]
    bindings = [b for b in of_kind(objects, "RoleBinding") if b["roleRef"]["name"] == role["metadata"]["name"]]
    assert [(b["metadata"]["namespace"], b["subjects"]) for b in bindings] == [
        ("one", [{"kind": "ServiceAccount", "name": "tuner", "namespace": "any"}])
    ]


def test_the_operator_reads_from_its_environment_what_the_chart_was_given() -> None:
    objects = rendered("any", *values("customised"))
    read = settings_of(objects)
    price = {"inputUSDPerMillionTokens": "0.25", "outputUSDPerMillionTokens": "2"}
    assert read.llm == LLMSpec.parse({"model": "openai/qwen3", "apiBase": "https://llm.example.com/v1", "price": price})
    assert read.trial_image == "registry.example.com/trial:1"
    given = yaml.safe_load((GOLDEN / "customised.values.yaml").read_text())["trial"]["pod"]
    assert read.site.trial.pod == PodSpec.parse(given)
    assert {one.name: one.value for one in read.site.trial.env}["USING_AINIC"] == "1"
    secret = {"secretKeyRef": {"name": "llm", "key": "apiKey"}}
    assert environment_of(objects)["TUNEWRIGHT_LLM_API_KEY"] == {"valueFrom": secret}


def test_the_operator_reads_what_runs_may_name_and_spend() -> None:
    site = settings_of(rendered("any", *values("limited"))).site
    assert site.allow.images == ("registry.example.com/ml",)
    assert site.allow.llm_addresses == ("https://llm.example.com/v1",)
    assert [site.llm_limit(namespace) for namespace in ("one", "two", "three")] == [50.0, None, None]


def test_without_a_model_the_operator_has_no_endpoint_and_no_key() -> None:
    environment = environment_of(rendered("any", "--set", "llm.secret.name=llm"))
    assert [name for name in environment if "LLM" in name] == []


@pytest.mark.parametrize(
    ("given", "mirrored"),
    [
        ("docker.io/rocm/primus:v26.5", "mirror.example.com/amd/rocm/primus:v26.5"),
        ("rocm/primus:v26.5", "mirror.example.com/amd/rocm/primus:v26.5"),
        ("localhost:5000/trial@sha256:ab", "mirror.example.com/amd/trial@sha256:ab"),
        ("trial:1", "mirror.example.com/amd/trial:1"),
    ],
)
def test_every_image_comes_from_the_mirror(given: str, mirrored: str) -> None:
    objects = rendered("any", *values("air-gapped"), "--set", f"trial.image={given}")
    assert settings_of(objects).trial_image == mirrored
    pods = [operator_pod(objects), *[item["spec"] for item in objects if item["kind"] == "Pod"]]
    images = {container["image"] for pod in pods for container in pod["containers"]}
    assert images == {"mirror.example.com/amd/tunewright-operator:0.1.0"}
    assert all(pod["imagePullSecrets"] == [{"name": "mirror"}] for pod in pods)


def test_the_pods_of_the_chart_meet_the_restricted_standard(control_plane: Cluster, namespace: str) -> None:
    control_plane.kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
    objects = rendered(namespace)
    specs = [operator_pod(objects), *[item["spec"] for item in objects if item["kind"] == "Pod"]]
    assert len(specs) == 2
    for spec in specs:
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "some"}, "spec": spec}
        pod["spec"]["serviceAccountName"] = "default"
        text = yaml.safe_dump(pod)
        control_plane.kubectl("apply", "--dry-run=server", "--namespace", namespace, "-f", "-", stdin=text)


def test_the_notes_tell_the_next_three_commands() -> None:
    told = helm("install", "tunewright", CHART, "--dry-run=client", "-n", "tuning", "--set", "watch.namespaces={one}")
    notes = told[told.index("NOTES:") :]
    commands = [line.strip() for line in notes.splitlines() if line.startswith("  ")]
    assert commands[:3] == [
        "helm test tunewright --namespace tuning",
        "kubectl apply --namespace one -f examples/tuningrun.yaml",
        "kubectl get tuningruns --all-namespaces --watch",
    ]


def test_a_namespace_gets_no_more_accelerators_than_its_limit(control_plane: Cluster, namespace: str) -> None:
    limit = f"namespaceLimits[0].namespace={namespace},namespaceLimits[0].maxGPUs=8"
    (quota,) = of_kind(rendered("any", "--set", limit), "ResourceQuota")
    control_plane.kubectl.apply(quota)
    wait = "--for=jsonpath={.status.hard.requests\\.amd\\.com/gpu}=8"
    control_plane.kubectl("wait", wait, "resourcequota", "--all", "-n", namespace, "--timeout=60s")
    resources = {"limits": {"amd.com/gpu": "16"}}
    container = {"name": "trial", "image": "trial:1", "resources": resources}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "large"}, "spec": {"containers": [container]}}
    with pytest.raises(KubectlFailed, match="exceeded quota"):
        control_plane.kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(pod))


@pytest.fixture
def crd_by_kubectl(control_plane: Cluster) -> str:
    """An older CRD as `kubectl apply -f crds/` leaves it, whatever release owned it before."""
    install_crd(control_plane)
    name = "tuningruns.tunewright.dev"
    kubectl = control_plane.kubectl
    kubectl("label", "crd", name, "app.kubernetes.io/managed-by-")
    kubectl("annotate", "crd", name, *[f"meta.helm.sh/release-{part}-" for part in ("name", "namespace")])
    kubectl("apply", "-f", "-", stdin=CRD_FILE.read_text().replace(NEWER, OLDER))
    return name


NEWER, OLDER = "description: PriorityClass of every trial Pod;", "description: Priority class of trial Pods;"


@pytest.mark.parametrize("program", HELMS)
def test_a_crd_that_kubectl_applied_before_is_adopted_and_outlives_the_release(
    control_plane: Cluster, namespace: str, crd_by_kubectl: str, program: str
) -> None:
    place = ["--kubeconfig", str(control_plane.kubeconfig), "--namespace", namespace]
    scope = ["--set", f"watch.namespaces={{{namespace}}}", "--set", "rbac.aggregateToUsers=false"]
    assert "cannot be imported" in refused("install", "tunewright", CHART, *place, *scope, program=program)
    adopting = ["--take-ownership", *(["--force-conflicts"] if program == "helm" else [])]
    helm("install", "tunewright", CHART, *place, *scope, *adopting, program=program)
    try:
        crd = control_plane.kubectl.get("crd", crd_by_kubectl)
        assert crd["metadata"]["annotations"]["meta.helm.sh/release-namespace"] == namespace
        assert OLDER.removeprefix("description: ") not in json.dumps(crd["spec"])
    finally:
        helm("uninstall", "tunewright", *place, program=program)
    assert control_plane.kubectl.get("crd", crd_by_kubectl)["metadata"].get("deletionTimestamp") is None


@pytest.mark.parametrize("program", HELMS)
def test_an_upgrade_from_the_previous_chart_keeps_what_it_was_given(
    control_plane: Cluster, namespace: str, program: str
) -> None:
    place = ["--kubeconfig", str(control_plane.kubeconfig), "--namespace", namespace]
    given = ["--set", f"watch.namespaces={{{namespace}}}", "--set", "trial.image=trial:7,crds.enabled=false"]
    helm("install", "tunewright", PREVIOUS_CHART, *place, *given, program=program)
    try:
        added = ["--reset-then-reuse-values", "--set", "trial.pod.queueName=tuning"]
        helm("upgrade", "tunewright", CHART, *place, *added, program=program)
        text = control_plane.kubectl("get", "deployment,role", "-n", namespace, "--output=yaml")
    finally:
        helm("uninstall", "tunewright", *place, program=program)
    read = settings_of(yaml.safe_load(text)["items"])
    assert (read.trial_image, read.site.trial.pod.queue_name) == ("trial:7", "tuning")
