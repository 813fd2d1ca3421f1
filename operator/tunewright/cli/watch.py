"""`tunewright watch`: a TuningRun of the cluster, live on a terminal, as lines elsewhere; ends when the run does."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from rich.live import Live

from tunewright.adapters.kube.client import TUNING_RUNS, KubeClient, connected
from tunewright.cli.arguments import namespace_and_name
from tunewright.cli.console import messages, output
from tunewright.cli.watch_view import run_line, run_picture
from tunewright.errors import InvalidInput, Transient

Document = dict[str, Any]

LOOK_SECONDS = 1.0


def run_watch(key: str) -> bool:
    """Show a run until it is finished; return whether it succeeded. Raises `InvalidInput` where there is none."""
    namespace, name = namespace_and_name(key)
    return asyncio.run(_watched(namespace, name))


async def _watched(namespace: str, name: str) -> bool:
    async with connected() as client:
        versions = _versions(client, namespace, name)
        last = await (_pictured(versions) if output.is_terminal else _told(versions))
    if last is None:
        raise InvalidInput.of("TuningRun", f"{namespace}/{name}", "does not exist: see kubectl get tuningruns -A")
    return is_true(last, "Succeeded")


async def _pictured(versions: AsyncIterator[Document]) -> Document | None:
    last = None
    with Live(console=output, auto_refresh=False) as live:
        async for last in versions:
            live.update(run_picture(last), refresh=True)
    return last


async def _told(versions: AsyncIterator[Document]) -> Document | None:
    last, before = None, ""
    async for last in versions:
        line = run_line(last)
        if line != before:
            output.print(line, soft_wrap=True, markup=False)
        before = line
    return last


async def _versions(client: KubeClient, namespace: str, name: str) -> AsyncIterator[Document]:
    """Yield the run whenever it changed, to its end or until somebody deletes it; faults that pass are waited out."""
    version = ""
    while True:
        try:
            found = await client.find(TUNING_RUNS, namespace, name)
        except Transient as error:
            messages.print(f"{error}: looking again", soft_wrap=True, markup=False)
            await asyncio.sleep(LOOK_SECONDS)
            continue
        if found is None:
            if version:
                messages.print(f"{namespace}/{name} was deleted")
            return
        if found["metadata"]["resourceVersion"] != version:
            version = found["metadata"]["resourceVersion"]
            yield found
        if is_true(found, "Finished"):
            return
        await asyncio.sleep(LOOK_SECONDS)


def is_true(document: Document, condition: str) -> bool:
    """Tell whether a condition holds for the generation that is there: an older one says nothing of a reopened run."""
    for one in (document.get("status") or {}).get("conditions") or ():
        if one["type"] == condition:
            generation = document["metadata"]["generation"]
            return bool(one["status"] == "True" and one.get("observedGeneration", generation) == generation)
    return False
