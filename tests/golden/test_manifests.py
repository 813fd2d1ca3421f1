"""Whole manifests against `tests/golden/manifests/`; `TUNEWRIGHT_UPDATE_GOLDEN=1` writes them anew."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.kube_documents import A_RUN, a_request, pod_options
from tunewright.adapters.kube.events import transition_event
from tunewright.adapters.kube.labels import COMPONENT
from tunewright.adapters.kube.manifests import REQUEST_VARIABLE, ledger_shard, result_config_map, trial_job
from tunewright.adapters.kube.multi_node import nodes_service
from tunewright.adapters.kube.prewarm import prewarm_job
from tunewright.adapters.kube.spec.trial import PodSpec, TrialSpec
from tunewright.trial_protocol.codec import decode_request

FOLDER = Path(__file__).parent / "manifests"

CUSTOM_TRIAL = TrialSpec.parse(
    {
        "devicePreset": "cpu",
        "command": ["/venv/bin/python", "-m", "tunewright_trial"],
        "env": [
            {"name": "PYTHONPATH", "value": "/venv/lib"},
            {"name": "HF_TOKEN", "secretKeyRef": {"name": "hub", "key": "token"}},
        ],
        "volumes": [{"name": "venv", "claimName": "venv", "mountPath": "/venv", "readOnly": True}],
        "resources": {"requests": {"cpu": "4"}, "limits": {"memory": "8Gi"}},
    }
)
CUSTOM_POD = PodSpec.parse(
    {
        "nodeSelection": "SelectorOnly",
        "nodeSelector": {"pool": "mi355x"},
        "tolerations": [{"key": "dedicated", "operator": "Equal", "value": "ml", "effect": "NoSchedule"}],
        "imagePullSecrets": [{"name": "regcred"}],
        "supplementalGroups": [44, 109],
        "priorityClassName": "low",
        "startDeadlineSeconds": 600,
    }
)

ON_NODES = a_request(kind="measure").model_copy(update={"nodes": 2})
QUEUED = PodSpec.parse({"queueName": "tuning", "nodeSelection": "SelectorOnly"})
MANIFESTS = {
    "trial-job": trial_job(A_RUN, a_request(), pod_options()),
    "measure-job-customised": trial_job(
        A_RUN, a_request(kind="measure"), pod_options(CUSTOM_TRIAL, CUSTOM_POD), ["gpu-3", "gpu-1"]
    ),
    "measure-job-on-nodes": trial_job(A_RUN, ON_NODES, pod_options(pod=QUEUED)),
    "nodes-service": nodes_service(A_RUN),
    "prewarm-job": prewarm_job(A_RUN, "gpu-1", pod_options(CUSTOM_TRIAL, CUSTOM_POD)),
    "ledger-shard": ledger_shard(A_RUN, 3, '{"type":"header"}\n'),
    "result": result_config_map(A_RUN, {"result.json": "{}\n"}),
    "kept-result": result_config_map(A_RUN, {"result.json": "{}\n"}, keep=True),
    "event": transition_event(A_RUN, "Finished", "Converged", warning=False, at="2026-11-30T05:00:00Z"),
}


@pytest.mark.parametrize("name", MANIFESTS)
def test_manifest_is_the_golden_one(name: str) -> None:
    file = FOLDER / f"{name}.yaml"
    if os.environ.get("TUNEWRIGHT_UPDATE_GOLDEN"):
        file.write_text(yaml.safe_dump(_without_request(MANIFESTS[name]), sort_keys=False, width=110))
    assert _without_request(MANIFESTS[name]) == yaml.safe_load(file.read_text())


def test_the_request_travels_in_the_environment() -> None:
    assert decode_request(_request_variable(MANIFESTS["trial-job"])["value"]) == a_request()


def test_a_users_own_rendezvous_variables_are_left_as_they_are() -> None:
    trial = TrialSpec.parse({"env": [{"name": "MASTER_PORT", "value": "29600"}]})
    job = trial_job(A_RUN, ON_NODES, pod_options(trial))
    environment = job["spec"]["template"]["spec"]["containers"][0]["env"]
    assert [one["value"] for one in environment if one["name"] == "MASTER_PORT"] == ["29600"]


def _request_variable(job: dict[str, Any]) -> dict[str, Any]:
    environment = job["spec"]["template"]["spec"]["containers"][0]["env"]
    return next(variable for variable in environment if variable["name"] == REQUEST_VARIABLE)


def _without_request(document: dict[str, Any]) -> dict[str, Any]:
    """The request has a golden test of its own; here it would drown the rest."""
    copied: dict[str, Any] = json.loads(json.dumps(document))
    if copied["kind"] == "Job" and copied["metadata"]["labels"][COMPONENT] == "trial":
        _request_variable(copied)["value"] = "(request)"
    return copied
