"""The main job on a real kubelet: `kubectl apply` leads to results measured by Pods that asked for amd.com/gpu."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.cluster.errors import HarnessError
from tests.support.cluster.node import Node
from tests.support.cluster.waiting import wait_until
from tests.support.host_python_claims import trial_on_host_python
from tests.support.kube_cluster import install_crd
from tests.support.operator_process import OperatorProcess
from tests.support.records import measured_digests
from tunewright.adapters.kube.client import connected
from tunewright.adapters.kube.export import exported_ledger
from tunewright.adapters.kube.labels import COMPONENT, OWN_OBJECTS
from tunewright.adapters.kube.support import gather
from tunewright.adapters.ledger.lines import decode_lines
from tunewright.planner.records import Record, TrialFinished
from tunewright.planner.replay import replay

EXAMPLE = Path(__file__).parents[2] / "examples" / "tuningrun.yaml"
RUN_SECONDS = 900
Document = dict[str, Any]


@pytest.fixture(scope="module", autouse=True)
def crd(node: Node) -> None:
    install_crd(node.cluster)


def apply_example(node: Node, namespace: str, *, prewarm: bool | None = None, **spec: object) -> None:
    document: Document = yaml.safe_load(EXAMPLE.read_text())
    trial = trial_on_host_python(node.cluster.kubectl, namespace, node.base_image())
    document["spec"]["trial"] = trial if prewarm is None else trial | {"prewarm": prewarm}
    document["spec"] |= spec
    node.cluster.kubectl("apply", "--namespace", namespace, "--filename", "-", stdin=json.dumps(document))


def status_of(node: Node, namespace: str) -> Document:
    found: Document = node.cluster.kubectl.get("tuningrun", "tiny", namespace=namespace)
    status: Document = found.get("status", {})
    return status


def finished_trials(node: Node, namespace: str) -> list[Document]:
    jobs = node.cluster.kubectl.get("jobs", f"--selector={COMPONENT}=trial", namespace=namespace)["items"]
    return [job for job in jobs if any(c["type"] == "Complete" for c in job.get("status", {}).get("conditions", ()))]


def wait_until_finished(node: Node, namespace: str, operator: OperatorProcess) -> Document:
    def is_finished() -> bool:
        conditions = status_of(node, namespace).get("conditions", ())
        return any(c["type"] == "Finished" and c["status"] == "True" for c in conditions)

    wait_running(is_finished, operator)
    return status_of(node, namespace)


def wait_running(condition: Callable[[], bool], operator: OperatorProcess) -> None:
    """Wait while the operator runs; one that exits is started again, as a kubelet would."""

    def met() -> bool:
        if not operator.is_running:
            operator.start()
        return condition()

    try:
        wait_until(met, "the run gets there", RUN_SECONDS, every=0.5)
    except HarnessError as error:
        raise AssertionError(f"{error}; the operator said: {operator.log.read_text()[-4000:]}") from None


def exported(node: Node, namespace: str) -> list[Record]:
    text = asyncio.run(exported_ledger(namespace, "tiny", str(node.cluster.kubeconfig)))
    return decode_lines(text, "export")


def assert_pods_asked_for_gpus(node: Node, namespace: str) -> None:
    pods = node.cluster.kubectl.get("pods", f"--selector={OWN_OBJECTS}", namespace=namespace)["items"]
    assert pods
    for pod in pods:
        limits = pod["spec"]["containers"][0]["resources"]["limits"]
        assert limits["amd.com/gpu"] == "8"
        terms = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        assert "75a3" in json.dumps(terms)


def assert_support_bundle_explains(node: Node, namespace: str, trials: int) -> None:
    """What `tunewright support-bundle` collects of real Pods: a kubelet answers for their logs."""

    async def gathered() -> dict[str, str]:
        async with connected(str(node.cluster.kubeconfig)) as client:
            return await gather(client, namespace, "tiny", namespace)

    files = asyncio.run(gathered())
    assert {"run.yaml", "ledger.jsonl", "result.yaml", "events.yaml", "jobs.yaml", "pods.yaml"} <= set(files)
    assert len(list(yaml.safe_load_all(files["jobs.yaml"]))) == trials
    assert "Finished=True" in files["summary.txt"]
    assert "Not read" not in files["summary.txt"], files["summary.txt"]


def test_an_operator_killed_midway_reaches_measured_results_with_each_trial_once(
    node: Node, node_namespace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    operator = OperatorProcess(node.cluster, node_namespace, tmp_path / "operator.log")
    apply_example(node, node_namespace, prewarm=True)
    with operator:
        for wanted in (1, 3):
            wait_running(lambda wanted=wanted: len(finished_trials(node, node_namespace)) >= wanted, operator)  # type: ignore[misc]
            operator.kill()
            operator.start()
        status = wait_until_finished(node, node_namespace, operator)

    with capsys.disabled():
        print("\n" + node.cluster.kubectl("get", "tuningruns", "--namespace", node_namespace, "--output=wide"))
        print(yaml.safe_dump({"status": status}, sort_keys=False))
    assert status["state"] == "Succeeded"
    assert status["trials"]["failed"] == 0
    assert status["best"]["measured"]["tokensPerSecondPerGPU"] > 0
    assert status["best"]["projected"]["tokensPerSecondPerGPU"] > 0
    assert_pods_asked_for_gpus(node, node_namespace)
    records = exported(node, node_namespace)
    measured = len(measured_digests(records))
    assert status["bias"]["samples"] == status["trials"]["measured"] == measured
    assert measured in (3, 4, 5), "the baseline and two, more where real times turn the order around"
    finished = [(record.trial, record.attempt) for record in records if isinstance(record, TrialFinished)]
    assert len(finished) == len(set(finished))
    jobs = node.cluster.kubectl.get("jobs", namespace=node_namespace)["items"]
    assert len(jobs) == len(finished), "each trial has one Job"
    assert replay(records) is None
    assert_support_bundle_explains(node, node_namespace, len(jobs))
    said = [event["message"] for event in node.cluster.kubectl.get("events", namespace=node_namespace)["items"]]
    assert "the trial image is on 1 of 1 node(s)" in said, "a real kubelet pulls before the first trial"
