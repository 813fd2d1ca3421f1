"""What people do to a run while it is alive: suspend, resume, change its budget, stop and delete it."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.cluster.cluster import Cluster
from tests.support.kube_cluster import install_crd
from tests.support.operator_process import OperatorProcess
from tests.support.operator_runs import condition, is_finished
from tests.support.operator_scene import Gate, Scene, is_so
from tunewright.adapters.kube.client import CONFIG_MAPS, JOBS, PODS
from tunewright.adapters.kube.labels import OWN_OBJECTS, SUSPEND

Document = dict[str, Any]


@pytest.fixture(scope="module", autouse=True)
def crd(control_plane: Cluster) -> None:
    install_crd(control_plane)


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
