"""`tunewright gc`: what outlived its TuningRun in a cluster, and removing it."""

import asyncio
from collections.abc import Sequence

from tunewright.adapters.kube.client import connected
from tunewright.adapters.kube.kept import Leftover, find_leftovers, remove
from tunewright.cli.console import messages, output, print_json
from tunewright.errors import InvalidInput


def run_gc(namespace: str, run: str, *, delete: bool, kept: bool, json_output: bool) -> None:
    """List leftovers with your kubeconfig, and remove orphans, with `kept` also what was kept on purpose."""
    if kept and not delete:
        raise InvalidInput.of("--kept", True, "says what --delete removes as well: give both, or neither to list")
    found, removed = asyncio.run(_collected(namespace, run, delete=delete, kept=kept))
    if json_output:
        print_json({"leftovers": [{**vars(item), "removed": item in removed} for item in found]})
        return
    for item in found:
        mark = "removed" if item in removed else item.why
        output.print(f"{mark:8} {item.kind:9} {item.namespace}/{item.name}  of {item.run}", soft_wrap=True)
    messages.print(_told(found, removed, delete=delete), soft_wrap=True)


async def _collected(namespace: str, run: str, *, delete: bool, kept: bool) -> tuple[list[Leftover], list[Leftover]]:
    async with connected() as client:
        found = [item for item in await find_leftovers(client, namespace) if run in ("", item.run)]
        removed = [item for item in found if delete and (kept or item.why == "orphan")]
        await remove(client, removed)
    return found, removed


def _told(found: Sequence[Leftover], removed: Sequence[Leftover], *, delete: bool) -> str:
    if delete:
        return f"{len(removed)} of {len(found)} leftovers removed"
    orphans = sum(item.why == "orphan" for item in found)
    return f"{orphans} orphans: --delete removes them; {len(found) - orphans} kept on purpose: --delete --kept"
