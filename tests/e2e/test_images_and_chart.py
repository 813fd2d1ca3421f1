"""The images of the Dockerfile, and the operator as people install it: by the chart, in a Pod, with its own rights."""

import json

import pytest

from tests.e2e.test_tuning_run import RUN_SECONDS, apply_example, assert_pods_asked_for_gpus, exported, status_of
from tests.support.cluster.images import BASE_IMAGE
from tests.support.cluster.node import Node
from tests.support.cluster.paths import REPOSITORY
from tests.support.cluster.waiting import wait_until
from tests.support.helm import CHART, helm
from tests.support.kube_cluster import install_crd
from tunewright.planner.replay import replay

DOCKERFILE = REPOSITORY / "Dockerfile"
OPERATOR_IMAGE = "localhost/tunewright-operator:test"
TRIAL_IMAGE = "localhost/tunewright-trial:test"
BASES = {name: BASE_IMAGE for name in ("BUILDER_BASE_IMAGE", "OPERATOR_BASE_IMAGE", "TRIAL_BASE_IMAGE")}
PROBE = (
    "import importlib.util, json, tunewright_trial; "
    "found = [name for name in ('torch', 'kopf', 'dspy', 'litellm', 'kubernetes', 'tunewright') "
    "if importlib.util.find_spec(name)]; "
    "open('/dev/termination-log', 'w').write(json.dumps(found))"
)


@pytest.fixture(scope="module")
def operator_image(node: Node) -> str:
    return node.build_image(DOCKERFILE, REPOSITORY, "operator", BASES, OPERATOR_IMAGE)


@pytest.fixture(scope="module")
def trial_image(node: Node) -> str:
    return node.build_image(DOCKERFILE, REPOSITORY, "trial", BASES, TRIAL_IMAGE)


def modules_in(node: Node, namespace: str, image: str, python: str) -> list[str]:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "probe"},
        "spec": {
            "restartPolicy": "Never",
            "containers": [
                {
                    "name": "probe",
                    "image": image,
                    "imagePullPolicy": "Never",
                    "command": [python, "-c", PROBE],
                    "securityContext": {"runAsUser": 1000, "readOnlyRootFilesystem": True},
                }
            ],
        },
    }
    kubectl = node.cluster.kubectl
    kubectl.apply(pod, namespace=namespace)
    kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/probe", "-n", namespace, "--timeout=120s")
    status = kubectl.get("pod", "probe", namespace=namespace)["status"]["containerStatuses"][0]
    found: list[str] = json.loads(status["state"]["terminated"]["message"])
    return found


def test_the_trial_image_has_the_trial_program_and_no_framework(
    node: Node, node_namespace: str, trial_image: str
) -> None:
    assert modules_in(node, node_namespace, trial_image, "python3") == ["tunewright"]


def test_the_operator_image_has_no_torch(node: Node, node_namespace: str, operator_image: str) -> None:
    found = modules_in(node, node_namespace, operator_image, "/opt/tunewright/bin/python")
    assert found == ["kopf", "dspy", "litellm", "kubernetes", "tunewright"]


def test_the_installed_operator_measures_a_tuning_run(node: Node, node_namespace: str, operator_image: str) -> None:
    repository, tag = operator_image.rsplit(":", 1)
    kubeconfig = ["--kubeconfig", str(node.cluster.kubeconfig), "--namespace", node_namespace]
    values = [
        f"image.repository={repository}",
        f"image.tag={tag}",
        f"watch.namespaces={{{node_namespace}}}",
        "crds.enabled=false",
    ]
    settings = [part for value in values for part in ("--set", value)]
    install_crd(node.cluster)
    helm("install", "tunewright", CHART, *kubeconfig, *settings, "--wait", "--timeout", "3m")
    try:
        apply_example(node, node_namespace, budget={"maxTrials": 2}, validation={"topK": 1, "steps": 3})
        wait_until(lambda: is_finished(node, node_namespace), "the run is finished", RUN_SECONDS, every=0.5)
    finally:
        helm("uninstall", "tunewright", *kubeconfig)
    status = status_of(node, node_namespace)
    assert status["state"] == "Succeeded"
    assert status["best"]["measured"]["tokensPerSecondPerGPU"] > 0
    assert_pods_asked_for_gpus(node, node_namespace)
    assert replay(exported(node, node_namespace)) is None


def is_finished(node: Node, namespace: str) -> bool:
    conditions = status_of(node, namespace).get("conditions", ())
    return any(c["type"] == "Finished" and c["status"] == "True" for c in conditions)
