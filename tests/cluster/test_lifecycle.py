"""What people do to a run while it is alive: suspend, resume, change its budget, stop and delete it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster.cluster import Cluster
from tests.support.operator_process import OperatorProcess
from tests.support.operator_runs import condition, is_finished
from tests.support.operator_scene import Gate, Scene, is_so
from tunewright.adapters.catalog import CATALOG_VARIABLE
from tunewright.adapters.kube.client import CONFIG_MAPS, JOBS, PODS
from tunewright.adapters.kube.labels import OWN_OBJECTS, SUSPEND
from tunewright.domain.catalog_loader import shipped_catalog

pytestmark = pytest.mark.usefixtures("crd")

Document = dict[str, Any]


@pytest.fixture
def scene(control_plane: Cluster, namespace: str, operator: OperatorProcess) -> Callable[[Gate], Scene]:
    return lambda gate: Scene(control_plane, namespace, operator, gate)


def is_suspended(status: Document) -> bool:
    return condition(status, "Suspended")["status"] == "True"


async def test_suspension_deletes_what_runs_and_resuming_runs_it_again(scene: Callable[[Gate], Scene]) -> None:
    async with scene(gate := Gate(passing=1)) as here:
        here.apply(budget={"maxTrials": 3})
        await here.until_running(2)
        await here.change({"suspend": True})
        status = await here.until(lambda status: is_suspended(status) and status["trials"]["running"] == 0)
        assert (status["state"], condition(status, "Suspended")["reason"]) == ("Suspended", "BySpec")
        assert status["trials"]["failed"] == 0

        async def nothing_runs() -> bool:
            pods = await here.pods()
            return all(pod["status"]["phase"] == "Succeeded" for pod in pods)

        await is_so(nothing_runs)
        gate.is_open = True
        await here.change({"suspend": False})
        status = await here.until(is_finished)
        ended = [
            (line["trial"], line["attempt"], line.get("failure"))
            for line in await here.ledger()
            if line["type"] == "trial"
        ]
    assert status["state"] == "Succeeded"
    assert ended[:3] == [("t0001", 1, None), ("t0002", 1, "Interrupted"), ("t0002", 2, None)]
    assert status["trials"]["failed"] == 0


async def test_suspension_may_let_running_trials_finish(scene: Callable[[Gate], Scene]) -> None:
    async with scene(gate := Gate()) as here:
        here.apply(budget={"maxTrials": 3}, onSuspend="LetRunningFinish")
        await here.until_running(1)
        await here.change({"suspend": True})
        status = await here.until(is_suspended)
        assert status["trials"]["running"] == 1
        gate.is_open = True
        status = await here.until(lambda status: status["trials"]["running"] == 0)
        assert (status["trials"]["projected"], len(here.kubelet.seen)) == (1, 1)
        await here.change({"suspend": False})
        await here.until(is_finished)
    assert set(here.kubelet.seen.values()) == {1}


async def test_an_annotation_suspends_whatever_the_spec_says(scene: Callable[[Gate], Scene]) -> None:
    async with scene(gate := Gate()) as here:
        here.apply(budget={"maxTrials": 2})
        await here.until_running(1)
        await here.change(annotations={SUSPEND: "true"})
        status = await here.until(is_suspended)
        assert condition(status, "Suspended")["reason"] == "ByAnnotation"
        assert status["observedGeneration"] == 1
        gate.is_open = True
        await here.change({"suspend": True}, {SUSPEND: "false"})
        status = await here.until(is_finished)
    assert status["state"] == "Succeeded"


async def test_a_lower_budget_takes_effect_at_once(scene: Callable[[Gate], Scene]) -> None:
    async with scene(gate := Gate(passing=2)) as here:
        here.apply()
        await here.until_running(3)
        await here.change({"budget": {"maxTrials": 2}})
        await here.until(lambda status: status["observedGeneration"] == 2)
        gate.is_open = True
        status = await here.until(is_finished)
    assert status["trials"]["summary"] == "3/2"
    assert condition(status, "Finished")["reason"] == "BudgetExhausted"


async def test_stopping_ends_what_runs_and_no_budget_reopens(scene: Callable[[Gate], Scene]) -> None:
    async with scene(Gate(passing=1)) as here:
        here.apply(budget={"maxTrials": 3})
        await here.until_running(2)
        await here.change({"stop": True})
        status = await here.until(is_finished)
        assert (status["state"], status["best"]["projected"]["trial"]) == ("Stopped", "t0001")

        async def nothing_runs() -> bool:
            return all(pod["status"]["phase"] == "Succeeded" for pod in await here.pods())

        await is_so(nothing_runs)
        await here.change({"budget": {"maxTrials": 30}})
        status = await here.until(lambda status: status["observedGeneration"] == 3)
    assert (status["state"], len(here.kubelet.seen)) == ("Stopped", 2)


async def test_a_preset_that_is_gone_after_a_restart_holds_the_run_until_it_is_back(
    control_plane: Cluster, namespace: str, tmp_path: Path
) -> None:
    preset, other = (tmp_path / f"catalog/models/{name}.yaml" for name in ("ours", "theirs"))
    preset.parent.mkdir(parents=True)
    text = shipped_catalog().root.joinpath("models/tiny-quickstart.yaml").read_text()
    for file in (preset, other):  # an empty catalog would keep the operator from starting
        file.write_text(text.replace("tiny-quickstart", file.stem))
    own = {CATALOG_VARIABLE: str(tmp_path / "catalog")}
    operator = OperatorProcess(control_plane, namespace, tmp_path / "operator.log", variables=own)
    async with Scene(control_plane, namespace, operator, gate := Gate(passing=1)) as here:
        workload = {"model": {"preset": "ours"}, "sequenceLength": 128, "globalBatchSize": 32, "backend": "builtin"}
        here.apply(workload=workload, budget={"maxTrials": 3})
        await here.until_running(2)
        operator.stop()
        preset.unlink()
        operator.start()
        held = await here.until(lambda status: condition(status, "Accepted")["status"] == "False")
        gate.is_open = True
        operator.stop()
        preset.write_text(text.replace("tiny-quickstart", preset.stem))
        operator.start()
        status = await here.until(is_finished)
        ended = [(line["trial"], line["attempt"]) for line in await here.ledger() if line["type"] == "trial"]
    told = condition(held, "Accepted")
    assert told["reason"] == "UnknownPreset"
    assert "spec.workload.model.preset: 'ours': is not a preset" in told["message"]
    assert "by the chart's value catalog" in told["message"]
    assert held["trials"]["projected"] >= 1, "what is known stays in the status"
    assert (status["state"], condition(status, "Accepted")["status"]) == ("Succeeded", "True")
    assert ended[:2] == [("t0001", 1), ("t0002", 1)], "the trial that ran meanwhile counts"
    assert set(here.kubelet.seen.values()) == {1}


async def test_a_run_that_is_deleted_while_the_operator_is_away_leaves_nothing(scene: Callable[[Gate], Scene]) -> None:
    async with scene(Gate(passing=1)) as here:
        here.apply()
        await here.until_running(2)
        here.operator.kill()
        here.cluster.kubectl("delete", "tuningrun", here.run.name, "-n", here.namespace, "--timeout=30s")

        async def nothing_is_left() -> bool:
            found = [
                await here.client.list(kind, here.namespace, labels=OWN_OBJECTS) for kind in (JOBS, PODS, CONFIG_MAPS)
            ]
            return not any(found)

        await is_so(nothing_is_left)
        here.operator.start()
