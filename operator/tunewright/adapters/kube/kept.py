"""What outlived its run: kept results and ledgers, and orphans. Called by `tunewright gc`, `export` and warm starts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from tunewright.adapters.kube import labels
from tunewright.adapters.kube.client import CONFIG_MAPS, JOBS, SERVICES, TUNING_RUNS, Document, KubeClient, Resource
from tunewright.adapters.kube.names import RunReference

Why = Literal["kept", "orphan"]
_RESOURCES: Mapping[str, Resource] = {"ConfigMap": CONFIG_MAPS, "Job": JOBS, "Service": SERVICES}


@dataclass(frozen=True)
class Leftover:
    """One object of ours whose run is gone: kept on purpose, or left by a deletion that orphaned it."""

    kind: str
    namespace: str
    name: str
    run: str
    uid: str
    why: Why
    created: str


async def find_leftovers(client: KubeClient, namespace: str = "") -> list[Leftover]:
    """Return the objects of runs that are gone, in one namespace or in all."""
    found = {
        kind: await client.list(resource, namespace, labels=labels.OWN_OBJECTS) for kind, resource in _RESOURCES.items()
    }
    # Afterwards: a run that was created meanwhile is then among them.
    alive = {run["metadata"]["uid"] for run in await client.list(TUNING_RUNS, namespace)}
    leftovers = [
        _leftover(kind, document)
        for kind, documents in found.items()
        for document in documents
        if _is_leftover(document, alive)
    ]
    return sorted(leftovers, key=lambda item: (item.namespace, item.run, item.kind, item.name))


async def remove(client: KubeClient, leftovers: Sequence[Leftover]) -> None:
    """Delete them, each only if it is still the object that was found."""
    for item in leftovers:
        await client.delete(_RESOURCES[item.kind], item.namespace, item.name, uid=item.uid)


async def find_reference(client: KubeClient, namespace: str, name: str) -> RunReference | None:
    """Return the run of a name: one that is there, else one whose ledger is; None where there is neither."""
    found = await client.find(TUNING_RUNS, namespace, name)
    if found is not None:
        return RunReference(namespace, name, found["metadata"]["uid"])
    selector = f"{labels.OWN_OBJECTS},{labels.RUN}={name},{labels.COMPONENT}=ledger"
    shards = await client.list(CONFIG_MAPS, namespace, labels=selector)
    uids = sorted({uid for shard in shards if (uid := shard["metadata"]["labels"].get(labels.RUN_UID))})
    return RunReference(namespace, name, uids[0]) if len(uids) == 1 else None


def _is_leftover(document: Document, alive: set[str]) -> bool:
    """Of an object with an owner the garbage collector takes care."""
    metadata = document["metadata"]
    uid = metadata["labels"].get(labels.RUN_UID)
    return bool(uid) and uid not in alive and not metadata.get("ownerReferences")


def _leftover(kind: str, document: Document) -> Leftover:
    metadata = document["metadata"]
    return Leftover(
        kind=kind,
        namespace=metadata["namespace"],
        name=metadata["name"],
        run=metadata["labels"].get(labels.RUN, ""),
        uid=metadata["uid"],
        why="kept" if labels.is_kept(document) else "orphan",
        created=metadata["creationTimestamp"],
    )
