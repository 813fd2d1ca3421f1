"""Runs that ask an LLM, against a scripted endpoint: the key comes from a Secret, and every outcome is a condition."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster.cluster import Cluster
from tests.support.kube_cluster import apply_run, kube_client
from tests.support.openai_server import proposals, serving
from tests.support.operator_process import OperatorProcess
from tests.support.operator_runs import condition, example, gpu_node, is_finished, kubelet_of, wait_for
from tunewright.adapters.kube.ledger import read_shards, shards_text

pytestmark = pytest.mark.usefixtures("crd")

KEY = "sk-a-key-that-must-not-leak"
WIDE = {
    "tensorParallelSize": [1, 2, 4],
    "pipelineParallelSize": [1, 2, 4],
    "microBatchSize": [1, 2, 4],
    "pipelineSchedule": ["1f1b"],
}


def asking(base: str) -> dict[str, Any]:
    return example(
        searchSpace=WIDE,
        explore={"strategy": "LLM", "llmSharePercent": 100, "patience": 1},
        llm={
            "model": "openai/scripted",
            "apiBase": base,
            "apiKeySecretRef": {"name": "llm", "key": "apiKey"},
            "timeoutSeconds": 60,
        },
    )


async def finished_status(
    control_plane: Cluster,
    namespace: str,
    document: dict[str, Any],
    log: Path,
    kubeconfig: Path | None = None,
    variables: Mapping[str, str] | None = None,
) -> tuple[dict[str, Any], str]:
    run = apply_run(control_plane, namespace, document)
    async with kube_client(control_plane) as client, gpu_node(client, namespace) as node:
        with OperatorProcess(control_plane, namespace, log, kubeconfig, variables) as operator:
            async with kubelet_of(client, namespace, node):
                found = await wait_for(client, run, is_finished, operator)
        return found["status"], shards_text(await read_shards(client, run))


async def test_an_answering_llm_is_asked_with_the_key_of_the_secret(
    control_plane: Cluster, namespace: str, tmp_path: Path
) -> None:
    control_plane.kubectl("create", "secret", "generic", "llm", f"--from-literal=apiKey={KEY}", "-n", namespace)
    with serving(proposals({"tensor_parallel_size": 4, "micro_batch_size": 2})) as server:
        status, ledger = await finished_status(control_plane, namespace, asking(server.api_base), tmp_path / "log")
    assert (condition(status, "AdvisorAvailable")["status"], status["state"]) == ("True", "Succeeded")
    assert status["spent"]["llmCalls"] == len(server.requests) > 0
    assert '"proposedBy":"llm"' in ledger
    assert KEY not in ledger + str(status) + (tmp_path / "log").read_text()


async def test_without_its_secret_the_surrogate_finishes_alone(
    control_plane: Cluster, namespace: str, tmp_path: Path
) -> None:
    document = asking("http://127.0.0.1:9/v1")
    status, _ = await finished_status(control_plane, namespace, document, tmp_path / "log")
    advisor = condition(status, "AdvisorAvailable")
    assert (advisor["status"], advisor["reason"], status["state"]) == ("False", "SecretNotFound", "Succeeded")
    assert f"{namespace}/llm, key apiKey: does not exist" in advisor["message"]
    assert status["spent"]["llmCalls"] == 0


def own_endpoint(base: str) -> dict[str, str]:
    """What the chart sets in the operator's environment."""
    return {
        "TUNEWRIGHT_LLM": json.dumps({"model": "openai/scripted", "apiBase": base}),
        "TUNEWRIGHT_LLM_API_KEY": KEY,
    }


async def test_a_run_that_names_no_llm_asks_the_operators_own(
    control_plane: Cluster, namespace: str, tmp_path: Path
) -> None:
    explore = {"strategy": "LLM", "llmSharePercent": 100, "patience": 1}
    document = example(searchSpace=WIDE, explore=explore)
    with serving(proposals({"tensor_parallel_size": 4, "micro_batch_size": 2})) as server:
        variables = own_endpoint(server.api_base)
        status, ledger = await finished_status(
            control_plane, namespace, document, tmp_path / "log", variables=variables
        )
    assert (condition(status, "AdvisorAvailable")["status"], status["state"]) == ("True", "Succeeded")
    assert {request.headers["authorization"] for request in server.requests} == {f"Bearer {KEY}"}
    assert '"proposedBy":"llm"' in ledger
    assert KEY not in ledger + str(status) + (tmp_path / "log").read_text()


async def test_a_run_that_names_another_model_without_a_key_does_not_get_the_operators(
    control_plane: Cluster, namespace: str, tmp_path: Path
) -> None:
    document = example(searchSpace=WIDE, explore={"strategy": "LLM", "patience": 1}, llm={"model": "openai/another"})
    with serving(proposals({"tensor_parallel_size": 4})) as server:
        variables = own_endpoint(server.api_base)
        status, _ = await finished_status(control_plane, namespace, document, tmp_path / "log", variables=variables)
    advisor = condition(status, "AdvisorAvailable")
    assert (advisor["status"], advisor["reason"], status["state"]) == ("False", "NotConfigured", "Succeeded")
    assert "openai/another needs a key of yours" in advisor["message"]
    assert server.requests == []
