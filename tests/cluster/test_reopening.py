"""A finished run in a cluster whose budget is raised: the operator goes on with it, and writes its results again."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster.cluster import Cluster
from tests.support.kube_cluster import apply_run, kube_client
from tests.support.operator_process import OperatorProcess
from tests.support.operator_runs import example, gpu_node, is_finished, kubelet_of, wait_for
from tunewright.adapters.kube.client import CONFIG_MAPS, TUNING_RUNS
from tunewright.adapters.kube.export import exported_ledger
from tunewright.adapters.ledger.lines import decode_lines
from tunewright.planner.replay import replay

pytestmark = pytest.mark.usefixtures("crd")


async def test_a_higher_budget_reopens_a_finished_run(control_plane: Cluster, namespace: str, tmp_path: Path) -> None:
    operator = OperatorProcess(control_plane, namespace, tmp_path / "operator.log")
    run = apply_run(control_plane, namespace, example(budget={"maxTrials": 2}))

    def is_finished_again(status: dict[str, Any]) -> bool:
        return is_finished(status) and status["observedGeneration"] == 2

    async with kube_client(control_plane) as client, gpu_node(client, namespace) as node:
        with operator:
            async with kubelet_of(client, namespace, node) as kubelet:
                first = (await wait_for(client, run, is_finished, operator))["status"]
                assert first["trials"]["summary"] == "2/2"
                await client.patch(TUNING_RUNS, namespace, run.name, {"spec": {"budget": {"maxTrials": 5}}})
                second = (await wait_for(client, run, is_finished_again, operator))["status"]
        assert second["state"] == "Succeeded"
        assert second["trials"]["projected"] > first["trials"]["projected"]
        assert set(kubelet.seen.values()) == {1}, "no trial ran twice"
        result = await client.find(CONFIG_MAPS, namespace, second["results"]["configMap"])
        assert result is not None
        assert json.loads(result["data"]["result.json"])["counters"]["maxProfiles"] == 5
        ledger = await exported_ledger(namespace, run.name, str(control_plane.kubeconfig))
        assert replay(decode_lines(ledger, "export")) is None
