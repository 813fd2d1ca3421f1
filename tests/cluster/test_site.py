"""What the owners of a cluster set for all runs, at an operator that runs; and the run that `helm test` asks for."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.cluster.test_operator_llm import WIDE, finished_status
from tests.support.cluster.control_plane import ControlPlane
from tests.support.helm import is_test_hook, rendered
from tests.support.kube_cluster import apply_run, kube_client
from tests.support.openai_server import proposals, serving
from tests.support.operator_process import OperatorProcess
from tests.support.operator_runs import condition, example, gpu_node, is_finished, kubelet_of, wait_for
from tunewright.adapters.kube.dry_run import NAME

pytestmark = pytest.mark.usefixtures("own_crd")


async def test_a_run_keeps_its_trial_image_when_the_default_changes(
    own_control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    log = tmp_path / "operator.log"
    first, second = (
        OperatorProcess(own_control_plane, namespace, log, variables={"TUNEWRIGHT_TRIAL_IMAGE": image})
        for image in ("registry.example.com/trial:1", "registry.example.com/trial:2")
    )
    run = apply_run(
        own_control_plane, namespace, example(suspend=True, budget={"maxTrials": 2}, validation={"topK": 0})
    )
    async with kube_client(own_control_plane) as client, gpu_node(client, namespace) as node:
        with first:
            await wait_for(client, run, lambda status: condition(status, "Accepted")["status"] == "True", first)
        own_control_plane.kubectl("patch", "tuningrun", "tiny", "-n", namespace, "--type=merge", "-p", RESUME)
        with second:
            async with kubelet_of(client, namespace, node):
                await wait_for(client, run, is_finished, second)
    pods = own_control_plane.kubectl.get("pods", namespace=namespace)["items"]
    assert {pod["spec"]["containers"][0]["image"] for pod in pods} == {"registry.example.com/trial:1"}


RESUME = '{"spec": {"suspend": false}}'


@pytest.mark.long
async def test_once_a_namespace_has_spent_its_share_the_surrogate_goes_on_alone(
    own_control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    """The first answer costs more than all runs may."""
    price = '"price": {"inputUSDPerMillionTokens": 1000000, "outputUSDPerMillionTokens": 1000000}'
    with serving(proposals({"tensor_parallel_size": 4, "micro_batch_size": 2})) as server:
        variables = {
            "TUNEWRIGHT_LLM": f'{{"model": "openai/scripted", "apiBase": "{server.api_base}", {price}}}',
            "TUNEWRIGHT_LLM_API_KEY": "sk-some",
            "TUNEWRIGHT_SITE": f'{{"namespaceLimits": [{{"namespace": "{namespace}", "maxLLMCostUSD": "0.01"}}]}}',
        }
        explore = {"strategy": "LLM", "llmSharePercent": 100, "patience": 4}
        document = example(searchSpace=WIDE, explore=explore, budget={"maxTrials": 14})
        status, _ = await finished_status(own_control_plane, namespace, document, tmp_path / "log", variables=variables)
        own_control_plane.kubectl("delete", "tuningrun", document["metadata"]["name"], "-n", namespace)
        log = tmp_path / "second.log"
        later, _ = await finished_status(own_control_plane, namespace, document, log, variables=variables)
        asked = len(server.requests)
    assert condition(later, "AdvisorAvailable")["reason"] == "OverBudget", "a deleted run has spent what it has"
    advisor = condition(status, "AdvisorAvailable")
    assert (status["state"], advisor["reason"]) == ("Succeeded", "OverBudget")
    assert f"the runs of {namespace} have spent" in advisor["message"]
    assert asked == status["spent"]["llmCalls"] == 1


def dry_run(cluster: ControlPlane, namespace: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run what the Pod of `helm test` runs, with the rights that the chart gives it."""
    scope = ["--set", f"watch.namespaces={{{namespace}}}"]
    hooks = [one for one in rendered(namespace, *scope) if is_test_hook(one)]
    cluster.kubectl.apply(*[one for one in hooks if one["kind"] != "Pod"])
    kubeconfig = cluster.service_account_kubeconfig(namespace, "tunewright-test")
    arguments = [sys.executable, "-m", "tunewright.adapters.kube.dry_run", "--namespace", namespace, *words]
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    return subprocess.run(arguments, env=environment, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize(
    ("variables", "code", "said"),
    [
        ({}, 0, "accepted; forecast: "),
        ({"TUNEWRIGHT_TRIAL_IMAGE": ""}, 1, "not accepted, Illegal: spec.trial.image: None: is required"),
    ],
    ids=["accepted", "no image"],
)
def test_the_test_of_an_installation_says_how_the_operator_took_the_run(
    own_control_plane: ControlPlane,
    namespace: str,
    tmp_path: Path,
    variables: Mapping[str, str],
    code: int,
    said: str,
) -> None:
    with OperatorProcess(own_control_plane, namespace, tmp_path / "log", variables=variables):
        done = dry_run(own_control_plane, namespace)
    assert done.returncode == code, done.stderr
    assert (done.stdout or done.stderr).startswith(said)
    left = own_control_plane.kubectl("get", "tuningruns", NAME, "--ignore-not-found", "-n", namespace)
    assert left == ""


def test_without_an_operator_the_test_of_an_installation_says_so(
    own_control_plane: ControlPlane, namespace: str
) -> None:
    done = dry_run(own_control_plane, namespace, "--timeout", "2")
    assert done.returncode == 1
    assert done.stderr.startswith("no operator took up the run within 2 s: see kubectl logs")
