"""500 finished runs and an operator that is started again: it gets ready soon, and then does nothing at all."""

import asyncio
import json
from pathlib import Path

from benchmarks.operator.figures import Figure
from benchmarks.operator.rig import NAMESPACE, Rig, rig
from benchmarks.operator.runs import small_run
from tunewright.adapters.kube.client import CONFIG_MAPS, EVENTS, JOBS, NODES, TUNING_RUNS, Document

RUNS = 500
SECONDS = 300.0
LEAST_SECONDS = 130.0
"""Two looks at every run that the operator makes by itself, once a minute."""
NAME = "at-rest"
_READS = ("get", "list", "watch")
_KINDS = (TUNING_RUNS, JOBS, CONFIG_MAPS, EVENTS)


async def at_rest(scale: float) -> list[Figure]:
    """Finish one run and give its status to all others; then start the operator again and watch it."""
    count, seconds = max(1, round(RUNS * scale)), max(LEAST_SECONDS, SECONDS * scale)
    async with rig(audit=True) as here:
        with here.kubelets(1, 0.5):
            await here.ready()
            await here.create([small_run("run-0")])
            (finished,) = await here.finished(1)
            await here.create([small_run(f"run-{number}") for number in range(1, count)])
            here.operator.kill()
            await _give_status(here, finished, count)
        for node in await here.client.list(NODES):
            await here.client.delete(NODES, "", node["metadata"]["name"])
        ready = await here.ready()
        await here.until_idle()
        written, changed, busy, looks = await _watch(here, seconds)
    said = f"{count} finished runs; of {count - 1} the status is copied from the first"
    return [
        Figure(NAME, "restart to ready", ready, "s", 15, said),
        Figure(NAME, "writes of the operator", len(written), "", 0, f"in {seconds:.0f} s, by audit: {written[:3]}"),
        Figure(NAME, "objects changed", changed, "", 0, "runs, Jobs, ConfigMaps, Events: by their versions"),
        Figure(NAME, "CPU", 100 * busy, "% of core", 1, f"over the same time, {looks:.0f} reconciles in it"),
    ]


async def _give_status(here: Rig, finished: Document, count: int) -> None:
    """The operator is away: so what it finds later is a cluster in which all runs had ended before it started."""
    at_once = asyncio.Semaphore(16)
    status = {"status": finished["status"]}

    async def give(name: str) -> None:
        async with at_once:
            await here.client.patch(TUNING_RUNS, NAMESPACE, name, status, subresource="status")

    await asyncio.gather(*[give(f"run-{number}") for number in range(1, count)])


async def _watch(here: Rig, seconds: float) -> tuple[list[str], int, float, float]:
    """Return what was written, the share of a core and the reconciles of a while in which nobody asks for anything."""
    versions, before, position = await _versions(here), here.scrape(), here.cluster.audit_log.stat().st_size
    await asyncio.sleep(seconds)
    done = here.scrape().since(before)
    audited = _writes(here.cluster.audit_log, position)
    changed = len(set((await _versions(here)).items()) ^ set(versions.items()))
    busy = done.total("tunewright_process_cpu_seconds_total") / seconds
    return audited, changed, busy, done.total("tunewright_reconcile_seconds_count")


async def _versions(here: Rig) -> dict[str, str]:
    """Return the version of every object that the operator could write."""
    found = [item["metadata"] for kind in _KINDS for item in await here.client.list(kind, NAMESPACE)]
    return {item["uid"]: item["resourceVersion"] for item in found}


def _writes(audit_log: Path, position: int) -> list[str]:
    """Return the requests of the administrator, whose rights the operator has, that were no reads.

    The controller manager has them too, and asks for tokens in kube-system.
    """
    with audit_log.open() as log:
        log.seek(position)
        lines = [json.loads(line) for line in log if line.endswith("\n")]
    return [f"{line['verb']} {line['requestURI']}" for line in lines if _is_write(line)]


def _is_write(line: Document) -> bool:
    is_ours = line["user"]["username"] == "admin" and "/namespaces/kube-system/" not in line["requestURI"]
    return is_ours and line["verb"] not in _READS
