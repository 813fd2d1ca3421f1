"""Small runs for the tests of faults: what they are asked, and their ledgers in a form that compares equal."""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.namespaces import namespace_on
from tests.support.fault_proxy import FaultProxy, fault_proxy
from tests.support.forked_operator import ForkedOperator
from tests.support.operator_runs import is_finished
from tests.support.operator_scene import Scene
from tests.support.stand_in_kubelet import Answer, answer
from tunewright.planner.records import without_timings

Document = dict[str, Any]
SMALL: Document = {"budget": {"maxTrials": 3}, "validation": {"topK": 1, "steps": 5, "repeats": 1}}
_finished: dict[tuple[str, str], list[object]] = {}


@asynccontextmanager
async def scene(
    cluster: ControlPlane, folder: Path, answers: Answer = answer, kubeconfig: Path | None = None, **operator: Any
) -> AsyncIterator[Scene]:
    """A scene in a namespace of its own, whose operator is forked."""
    with namespace_on(cluster) as namespace:
        forked = ForkedOperator(cluster, namespace, folder / f"{namespace}.log", kubeconfig, **operator)
        async with Scene(cluster, namespace, forked, answers) as here:
            yield here


@asynccontextmanager
async def proxied_scene(
    cluster: ControlPlane, folder: Path, answers: Answer = answer, **operator: Any
) -> AsyncIterator[tuple[Scene, FaultProxy]]:
    """A scene whose operator sees the API server through a proxy."""
    async with AsyncExitStack() as stack:
        proxy, kubeconfig = await stack.enter_async_context(fault_proxy(cluster, folder))
        yield await stack.enter_async_context(scene(cluster, folder, answers, kubeconfig, **operator)), proxy


async def comparable_ledger(here: Scene) -> list[object]:
    """Return the ledger's records without clock readings and without what differs between two namespaces."""
    text = json.dumps(await here.ledger()).replace(here.run.uid, "UID").replace(here.namespace, "NAMESPACE")
    return [without_timings(record) for record in json.loads(text)]


async def finished_ledger(cluster: ControlPlane, folder: Path, **spec: Any) -> list[object]:
    """Return the ledger of the example with nothing in its way; it is run once."""
    key = cluster.url, json.dumps(spec, sort_keys=True)
    if key not in _finished:
        async with scene(cluster, folder) as here:
            here.apply(**spec)
            status = await here.until(is_finished)
            assert status["state"] == "Succeeded"
            _finished[key] = await comparable_ledger(here)
    return _finished[key]


async def assert_same_as(here: Scene, expected: list[object]) -> None:
    """Nothing was lost, nothing doubled, and no trial was started twice."""
    found = await comparable_ledger(here)
    for number, (record, wanted) in enumerate(zip(found, expected, strict=False)):
        assert record == wanted, f"line {number + 1} is {record}, and undisturbed {wanted}"
    assert len(found) == len(expected)
    assert set(here.kubelet.seen.values()) == {1}
    trials = [record for record in expected if isinstance(record, dict) and record["type"] == "trial"]
    assert len(here.kubelet.seen) == len(trials)
