"""The committed CRD on a real API server: what it takes, what it refuses and how it says so."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.cluster.cluster import Cluster
from tests.support.cluster.errors import KubectlFailed
from tests.support.kube_cluster import apply_run
from tests.support.kube_documents import a_tuning_run

pytestmark = pytest.mark.usefixtures("crd")

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))


def refusal(cluster: Cluster, namespace: str, document: dict[str, Any]) -> str:
    with pytest.raises(KubectlFailed) as caught:
        apply_run(cluster, namespace, document)
    return str(caught.value)


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_every_example_is_accepted(control_plane: Cluster, namespace: str, file: Path) -> None:
    apply_run(control_plane, namespace, yaml.safe_load(file.read_text()))


@pytest.mark.parametrize("mode", [[], ["--server-side"]], ids=["client-side", "server-side"])
def test_a_second_apply_changes_nothing(control_plane: Cluster, namespace: str, mode: list[str]) -> None:
    document = json.dumps(a_tuning_run(baseline={"microBatchSize": 2}, searchSpace={"microBatchSize": [1, 2]}))
    apply = ["apply", *mode, "--namespace", namespace, "--filename", "-"]
    control_plane.kubectl(*apply, stdin=document)
    first = control_plane.kubectl.get("tuningrun", "tiny", namespace=namespace)["metadata"]
    control_plane.kubectl(*apply, stdin=document)
    second = control_plane.kubectl.get("tuningrun", "tiny", namespace=namespace)["metadata"]
    assert (second["generation"], second["resourceVersion"]) == (1, first["resourceVersion"])


def test_printer_columns_and_short_name(control_plane: Cluster, namespace: str) -> None:
    apply_run(control_plane, namespace, a_tuning_run())
    status = {
        "observedGeneration": 1,
        "state": "Validating",
        "trials": {"summary": "4/8"}
        | dict.fromkeys(
            ["proposed", "filtered", "pruned", "reused", "rejected", "running", "projected", "measured", "failed"], 0
        ),
        "best": {
            "projected": {
                "trial": "t0001",
                "tokensPerSecondPerGPU": 4908,
                "intervalLow": 1,
                "intervalHigh": 2,
                "configuration": {},
            }
        },
    }
    patch = json.dumps({"status": status})
    control_plane.kubectl("patch", "tnr", "tiny", "-n", namespace, "--subresource=status", "--type=merge", "-p", patch)
    header, row = control_plane.kubectl("get", "tnr", "-n", namespace).splitlines()
    assert header.split() == ["NAME", "STATE", "TRIALS", "PROJECTED", "MEASURED", "GAIN", "%", "AGE"]
    assert row.split()[:4] == ["tiny", "Validating", "4/8", "4908"]


def without(document: dict[str, Any], *path: str) -> dict[str, Any]:
    copied: dict[str, Any] = json.loads(json.dumps(document))
    inner = copied
    for key in path[:-1]:
        inner = inner[key]
    del inner[path[-1]]
    return copied


REFUSED = {
    "typo": (a_tuning_run(budgets={}), ['unknown field "spec.budgets"']),
    "required": (without(a_tuning_run(), "spec", "workload", "globalBatchSize"), ["globalBatchSize: Required value"]),
    "axis-value": (a_tuning_run(searchSpace={"pipelineSchedule": ["2f2b"]}), ["pipelineSchedule", '"2f2b"', '"1f1b"']),
    "switch": (
        a_tuning_run(searchSpace={"overlapGradReduce": ["on"]}),
        ["overlapGradReduce", "must be of type boolean"],
    ),
    "name": (a_tuning_run("a" * 41), [f"metadata.name {'a' * 41} must match", "at most 40"]),
    "two-models": (
        a_tuning_run(
            workload={
                "model": {"preset": "tiny-quickstart", "configMapKeyRef": {"name": "m", "key": "k"}},
                "sequenceLength": 128,
                "globalBatchSize": 32,
            }
        ),
        ["spec.workload.model", "set exactly one of preset, configMapKeyRef and architecture"],
    ),
    "parallel": (
        a_tuning_run(parallelTrials=4, budget={"maxTrials": 2}),
        ["parallelTrials", "4 exceeds budget.maxTrials 2"],
    ),
    "validation": (a_tuning_run(validation={"nodes": 2}), ["spec.validation", "nodes 2 exceeds cluster.nodes 1"]),
    "llm-unused": (
        a_tuning_run(explore={"strategy": "Surrogate"}, llm={"model": "openai/x"}),
        ["spec.llm", "set the strategy to LLM"],
    ),
    "own-endpoint-without-key": (
        a_tuning_run(llm={"model": "openai/x", "apiBase": "https://llm.example.com"}),
        ["spec.llm", "apiBase needs apiKeySecretRef"],
    ),
    "gpus": (
        a_tuning_run(trial={"resources": {"limits": {"amd.com/gpu": "8"}}}),
        ["spec.trial.resources", "the operator asks for whole nodes"],
    ),
    "env": (
        a_tuning_run(trial={"env": [{"name": "A"}]}),
        ["spec.trial.env[0]", "exactly one of value and secretKeyRef"],
    ),
    "nothing": (a_tuning_run(budget={"maxGPUHours": "0.0"}), ["spec.budget.maxGPUHours", "at least 0.000001"]),
    "whole-nothing": (a_tuning_run(budget={"maxGPUHours": 0}), ["spec.budget.maxGPUHours", "equal to 1"]),
    "own-variable": (
        a_tuning_run(trial={"env": [{"name": "TUNEWRIGHT_REQUEST_JSON", "value": "{}"}]}),
        ["spec.trial.env[0]", "trial program's own"],
    ),
    "own-volume": (
        a_tuning_run(trial={"volumes": [{"name": "scratch", "claimName": "c", "mountPath": "/data"}]}),
        ["spec.trial.volumes[0]", "choose another name and path"],
    ),
    "path-twice": (
        a_tuning_run(trial={"volumes": [{"name": name, "claimName": "c", "mountPath": "/x"} for name in "ab"]}),
        ["spec.trial.volumes", "a mountPath is given twice"],
    ),
    "axis-twice": (a_tuning_run(sweep={"axes": ["precision", "precision"]}), ["spec.sweep.axes", "given twice"]),
    "selector": (a_tuning_run(pod={"nodeSelector": {"bad key": "x"}}), ["spec.pod.nodeSelector", "label names"]),
    "resource": (a_tuning_run(trial={"resources": {"limits": {"gpu": "8"}}}), ["spec.trial.resources", "keys are cpu"]),
    "foreign-resource": (
        a_tuning_run(pod={"resourceName": "kubernetes.io/gpu"}),
        ["spec.pod.resourceName", "Kubernetes' own"],
    ),
    "toleration": (
        a_tuning_run(pod={"tolerations": [{"operator": "Exists"}]}),
        ["spec.pod.tolerations[0]", "name a key other than amd-gpu-unhealthy and amd-dcm"],
    ),
    "health-taint": (
        a_tuning_run(pod={"tolerations": [{"key": "amd-dcm", "operator": "Exists"}]}),
        ["spec.pod.tolerations[0]", "not fit to be measured on"],
    ),
    "group": (a_tuning_run(pod={"supplementalGroups": [-1]}), ["spec.pod.supplementalGroups", "equal to 0"]),
    "float": (a_tuning_run(budget={"maxGPUHours": 0.5}), ["spec.budget.maxGPUHours"]),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_bad_object_is_refused_with_field_value_and_remedy(control_plane: Cluster, namespace: str, case: str) -> None:
    document, said = REFUSED[case]
    message = refusal(control_plane, namespace, document)
    for part in said:
        assert part in message


CHANGES: dict[str, dict[str, Any]] = {
    "workload": {"workload": {**a_tuning_run()["spec"]["workload"], "sequenceLength": 256}},
    "cluster": {"cluster": {"nodes": 2, "accelerator": {"preset": "mi355x"}}},
    "baseline": {"baseline": {"microBatchSize": 2}},
    "searchSpace": {"searchSpace": {"microBatchSize": [1]}},
    "trial": {"trial": {"image": "another"}},
    "validation": {"validation": {"topK": 1}},
    "randomSeed": {"randomSeed": 1},
    "warmStart": {"warmStart": {"ledgerFrom": {"name": "earlier"}}},
}


@pytest.mark.parametrize("field", CHANGES)
def test_what_defines_the_search_is_immutable(control_plane: Cluster, namespace: str, field: str) -> None:
    apply_run(control_plane, namespace, a_tuning_run())
    message = refusal(control_plane, namespace, a_tuning_run(**CHANGES[field]))
    assert f"spec.{field}" in message
    assert "is immutable: create a TuningRun with another name" in message


def test_an_immutable_field_cannot_be_removed_and_added_again(control_plane: Cluster, namespace: str) -> None:
    apply_run(control_plane, namespace, a_tuning_run(baseline={"microBatchSize": 2}))
    assert "spec.baseline" in refusal(control_plane, namespace, a_tuning_run())


def test_what_a_person_on_call_needs_is_mutable(control_plane: Cluster, namespace: str) -> None:
    apply_run(control_plane, namespace, a_tuning_run())
    changed = a_tuning_run(
        budget={"maxTrials": 3},
        parallelTrials=2,
        pod={"nodeSelector": {"a": "b"}, "priorityClassName": "low", "requireValidated": True},
        explore={"patience": 5},
        results={"keep": True, "keepFailedTrials": 0, "trialTTLSecondsAfterFinished": 0},
        onSuspend="LetRunningFinish",
        suspend=True,
        stop=True,
    )
    apply_run(control_plane, namespace, changed)
    assert "a stopped run never reopens" in refusal(
        control_plane, namespace, {**changed, "spec": {**changed["spec"], "stop": False}}
    )
