"""The ledger as ConfigMaps: small live shards that are sealed when full. Implements `ports.Ledger`.

etcd keeps every version of an object for a while, so growing one large object a record at a time is expensive: a live
shard has at most 32 KiB. One append is one write of one shard, hence all or nothing; the resource version in the patch
lets a second writer fail instead of overwriting. The lines are chained over all shards.
"""

import asyncio
import re
from collections.abc import Callable, Sequence
from typing import Any

from tunewright.adapters.kube import labels
from tunewright.adapters.kube.client import CONFIG_MAPS, Document, KubeClient
from tunewright.adapters.kube.manifests import LEDGER_KEY, ledger_shard
from tunewright.adapters.kube.names import RunReference
from tunewright.errors import ClusterError, Conflict, LedgerError, Transient
from tunewright.planner.chain import DIGEST, START, chained, head_of
from tunewright.planner.records import Record

LIVE_SHARD_BYTES = 32 * 1024
MAX_SHARD_BYTES = 128 * 1024
"""Of a single append that is larger than a live shard. Rounds and answers are kept below it by the planner's limits."""

_DIGEST = re.compile("[0-9a-f]{64}")

Decode = Callable[[str, str], list[Record]]
"""From JSON lines and the name of their source to records. The wiring gives it: adapters know nothing of each other."""


class ConfigMapLedger:
    """Records of one run in the run's namespace."""

    def __init__(self, client: KubeClient, run: RunReference, decode: Decode, told_digest: str = "") -> None:
        """`told_digest` is that of a line which the run's status says was written."""
        self._client = client
        self._decode = decode
        self._run = run
        self._shards: list[Document] = []
        self._head = START
        self._told_digest = told_digest
        self._keep = False

    async def read(self) -> Sequence[Record]:
        """Return all records; raise `LedgerError` naming the first bad line, or when lines are gone that were there."""
        self._shards = await read_shards(self._client, self._run)
        text = shards_text(self._shards)
        records = await self.records()
        check_complete(text, self._told_digest, self._run)
        self._head = head_of(text)
        return records

    async def records(self) -> list[Record]:
        """Return all records as they were read and written here; those of a long run take seconds, in a thread."""
        return await asyncio.to_thread(self._decode, shards_text(self._shards), f"ledger of {self._run.key}")

    async def append(self, records: Sequence[Record]) -> None:
        """Add records in one write; raise `LedgerError` when that fails, and then `read` again before the next."""
        text, head = chained(records, self._head)
        if len(text.encode()) > MAX_SHARD_BYTES:
            raise LedgerError(f"{len(records)} records have {len(text.encode())} bytes, more than a shard holds")
        try:
            await self._write(text)
        except ClusterError as error:
            raise LedgerError(f"{self._run.key}: the ledger could not be written: {error}") from error
        self._head = head

    async def outlive_run(self, *, keep: bool) -> None:
        """Let the ledger outlive its run, or go with it: what is there and what will be written.

        Raises `LedgerError` when that fails, and then `read` again before the next write.
        """
        self._keep = keep
        try:
            for number, shard in enumerate(self._shards):
                if labels.is_kept(shard) != keep:
                    self._shards[number] = await self._patch(shard, {"metadata": keeping(self._run, keep=keep)})
        except ClusterError as error:
            raise LedgerError(f"{self._run.key}: the ledger could not be written: {error}") from error

    @property
    def shard_count(self) -> int:
        """ConfigMaps so far."""
        return len(self._shards)

    @property
    def digest(self) -> str:
        """Digest of the last line, which stands for all lines before it."""
        return f"sha256:{self._head}"

    async def _write(self, text: str) -> None:
        live = self._shards[-1] if self._shards else None
        if live is not None and not live.get("immutable"):
            if len((shard_text(live) + text).encode()) <= LIVE_SHARD_BYTES:
                self._shards[-1] = await self._patch(live, {"data": {LEDGER_KEY: shard_text(live) + text}})
                return
            # Sealed before there is a next one: so no second writer can go on in the old one.
            self._shards[-1] = await self._patch(live, {"immutable": True})
        shard = ledger_shard(self._run, len(self._shards), text, keep=self._keep)
        try:
            self._shards.append(await self._client.create(CONFIG_MAPS, self._run.namespace, shard))
        except Conflict as error:
            raise await self._why_taken(shard["metadata"]["name"], error) from None

    async def _why_taken(self, name: str, error: Conflict) -> ClusterError:
        """Say whose the ConfigMap is that has the name of our next shard."""
        found = await self._client.find(CONFIG_MAPS, self._run.namespace, name)
        if found is None or labels.is_owned_by(found, self._run):
            return error  # of a namesake that goes away, or ours after all: the ledger is read anew
        how = "kept" if labels.is_kept(found) else "left"
        what = f"an earlier run of this name {how} it: see tunewright gc" if labels.is_ours(found) else "it is not ours"
        return Conflict(f"the ConfigMap {self._run.namespace}/{name} is in the way, {what}; or choose another name")

    async def _patch(self, shard: Document, change: dict[str, Any]) -> Document:
        metadata = shard["metadata"]
        guard = {"resourceVersion": metadata["resourceVersion"]}
        guarded = {**change, "metadata": {**change.get("metadata", {}), **guard}}
        try:
            return await self._client.patch(CONFIG_MAPS, self._run.namespace, metadata["name"], guarded)
        except Conflict as error:  # somebody wrote since it was read: a label, or another operator its line
            raise Transient(str(error)) from None


def keeping(run: RunReference, *, keep: bool) -> Document:
    """Return the change of an object's metadata that lets it outlive its run, or go with it."""
    return {"annotations": {labels.KEPT: None}, "ownerReferences": None, **labels.ownership(run, keep=keep)}


def check_complete(text: str, told_digest: str, run: RunReference) -> None:
    """Raise `LedgerError` when the line that a status names is not there: shards were deleted, and it would repeat."""
    digest = told_digest.removeprefix("sha256:")
    if _DIGEST.fullmatch(digest) and f'"{DIGEST}":"{digest}"' not in text:
        raise LedgerError(
            f"{run.key}: status.results.ledgerDigest {digest[:12]}… is of a line that the ledger does not have:"
            " ConfigMaps of it were deleted or are old: restore them, or start a run under another name"
        )


async def read_shards(client: KubeClient, run: RunReference) -> list[Document]:
    """Return the ConfigMaps of a run's ledger in order; raise `LedgerError` when one is missing."""
    found = await client.list(CONFIG_MAPS, run.namespace, labels=labels.run_selector(run, "ledger"))
    shards = sorted(
        (shard for shard in found if labels.is_owned_by(shard, run)), key=lambda shard: shard["metadata"]["name"]
    )
    for number, shard in enumerate(shards):
        expected = ledger_shard(run, number, "")["metadata"]["name"]
        if shard["metadata"]["name"] != expected:
            raise LedgerError(f"{run.key}: the ConfigMap {expected} of the ledger is missing: restore it")
    return shards


def shard_text(shard: Document) -> str:
    """Return the lines of one shard."""
    return str((shard.get("data") or {}).get(LEDGER_KEY, ""))


def shards_text(shards: Sequence[Document]) -> str:
    """Return all lines."""
    return "".join(shard_text(shard) for shard in shards)
