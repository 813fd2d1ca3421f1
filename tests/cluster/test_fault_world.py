"""What happens around an operator: its clock jumps, its CRD or namespace goes away, a backup is restored."""

from pathlib import Path
from typing import Any

import pytest

from benchmarks.operator.scrape import Scrape
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.namespaces import namespace_on
from tests.support.cluster.ports import free_ports
from tests.support.fault_runs import SMALL, assert_same_as, finished_ledger, scene
from tests.support.kube_cluster import apply_run, install_crd
from tests.support.operator_process import OperatorProcess
from tests.support.operator_runs import example, is_finished
from tests.support.operator_scene import Gate, Scene, is_so
from tunewright.adapters.kube.client import CONFIG_MAPS, JOBS
from tunewright.adapters.kube.labels import OWN_OBJECTS

pytestmark = pytest.mark.usefixtures("own_crd")

Document = dict[str, Any]
FAKETIME = next(iter(sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))), None)


@pytest.mark.skipif(FAKETIME is None, reason="Debian's package faketime is not installed")
async def test_a_clock_that_jumps_ends_no_trial_and_costs_no_time(
    own_control_plane: ControlPlane, tmp_path: Path
) -> None:
    """Two hours ahead from the start, a day back, and over the end of daylight saving time."""
    expected = await finished_ledger(own_control_plane, tmp_path, **SMALL)
    faked, gate = tmp_path / "clock", Gate(passing=1)
    faked.write_text("+2h")
    (port,) = free_ports(1)
    variables = {
        "TUNEWRIGHT_METRICS_PORT": str(port),
        "LD_PRELOAD": str(FAKETIME),
        "FAKETIME_TIMESTAMP_FILE": str(faked),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "TZ": "America/New_York",
    }
    with namespace_on(own_control_plane) as namespace:
        operator = OperatorProcess(own_control_plane, namespace, tmp_path / "log", variables=variables)
        async with Scene(own_control_plane, namespace, operator, gate) as here:
            here.apply(**SMALL)
            await here.until_running(2)
            for number, clock in enumerate(("+2h", "-1d", "@2026-11-01 01:59:59")):
                faked.write_text(clock)
                await looked_at_again(here, port, number)
            gate.is_open = True
            status = await here.until(is_finished)
            await assert_same_as(here, expected)
    assert status["trials"]["failed"] == 0
    assert status["spent"]["durationSeconds"] < 600


async def looked_at_again(here: Scene, port: int, number: int) -> None:
    """Wait until the operator has made two more passes over its run, the only one."""
    for look in range(2):
        before = Scrape.at(port)
        await here.change(annotations={"example.com/touched": f"{number}-{look}"})

        async def came(earlier: Scrape = before) -> bool:
            return Scrape.at(port).since(earlier).total("tunewright_reconcile_seconds_count") >= 1

        await is_so(came)


async def test_a_namespace_that_is_deleted_goes_with_everything_and_the_operator_stays(
    own_control_plane: ControlPlane, tmp_path: Path
) -> None:
    async with scene(own_control_plane, tmp_path, Gate(passing=1)) as here:
        here.apply(**SMALL)
        await here.until_running(2)
        here.cluster.kubectl("delete", "namespace", here.namespace, "--wait=false")

        async def it_is_gone() -> bool:
            found = here.cluster.kubectl("get", "namespace", here.namespace, "--ignore-not-found", "--output=name")
            return not found.strip()

        await is_so(it_is_gone)
        assert here.operator.is_running
        assert "Traceback" not in here.operator.log.read_text()


async def test_a_crd_that_is_removed_and_added_again_is_served_again(
    own_control_plane: ControlPlane, tmp_path: Path
) -> None:
    async with scene(own_control_plane, tmp_path, gate := Gate(passing=1)) as here:
        here.apply(**SMALL)
        await here.until_running(2)
        here.cluster.kubectl("delete", "crd", "tuningruns.tunewright.dev", "--timeout=60s")

        async def operator_waits_for_it() -> bool:
            if not here.operator.is_running:
                here.operator.start()
            return "waiting for their CRD" in here.operator.log.read_text()

        await is_so(operator_waits_for_it)
        gone = here.run.uid
        install_crd(own_control_plane)
        gate.is_open = True
        here.apply(**SMALL)
        # What the old run left may still be there: the garbage collector looks for new kinds every half minute.
        status = await here.until(is_finished, seconds=300)
        owners = {
            owner["uid"]
            for kind in (CONFIG_MAPS, JOBS)
            for document in await owned(here, kind)
            for owner in document["metadata"]["ownerReferences"]
        }
    assert status["state"] == "Succeeded"
    assert owners == {here.run.uid} != {gone}


async def test_a_restored_backup_is_another_run_and_waits_until_the_old_ones_objects_are_gone(
    own_control_plane: ControlPlane, tmp_path: Path
) -> None:
    async with scene(own_control_plane, tmp_path, gate := Gate(passing=2)) as here:
        here.apply(**SMALL)
        await here.until_running(3)
        backup = [document for kind in (CONFIG_MAPS, JOBS) for document in await owned(here, kind)]
        old = here.run
        here.cluster.kubectl("delete", "tuningrun", old.name, "--namespace", here.namespace, "--timeout=60s")
        here.cluster.kubectl.apply(*map(restorable, backup), namespace=here.namespace)
        here.run = apply_run(own_control_plane, here.namespace, example(**SMALL))
        gate.is_open = True
        status = await here.until(is_finished)
        ledger = await here.ledger()
    assert status["state"] == "Succeeded"
    assert {line.get("runUid") for line in ledger[:1]} == {here.run.uid} != {old.uid}
    assert [line["attempt"] for line in ledger if line["type"] == "trial"] == [1] * 5


async def owned(here: Scene, kind: Any) -> list[Document]:
    return await here.client.list(kind, here.namespace, labels=OWN_OBJECTS)


def restorable(document: Document) -> Document:
    """Return an object as a backup brings it back: with its owner's old uid, and without what a server gives it."""
    metadata = {
        key: document["metadata"][key]
        for key in ("name", "labels", "annotations", "ownerReferences")
        if key in document["metadata"]
    }
    body: Document = {key: document[key] for key in ("data", "immutable") if key in document}
    if "spec" in document:
        template = document["spec"]["template"]
        labels = {k: v for k, v in template["metadata"]["labels"].items() if "controller-uid" not in k}
        body["spec"] = {**document["spec"], "suspend": True, "template": {**template, "metadata": {"labels": labels}}}
        body["spec"].pop("selector")
        metadata["labels"] = {k: v for k, v in metadata["labels"].items() if "controller-uid" not in k}
    kind, version = ("Job", "batch/v1") if "spec" in document else ("ConfigMap", "v1")
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **body}
