"""The ledger as ConfigMaps: small live shards that are sealed when full. Implements `ports.Ledger`.

etcd keeps every version of an object for a while, so growing one large object a record at a time is expensive: a live
shard has at most 32 KiB. One append is one write of one shard, hence all or nothing; the resource version in the patch
lets a second writer fail instead of overwriting.
"""

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

from tunewright.adapters.kube import labels
from tunewright.adapters.kube.client import CONFIG_MAPS, Document, KubeClient
from tunewright.adapters.kube.manifests import LEDGER_KEY, ledger_shard
from tunewright.adapters.kube.names import RunReference
from tunewright.errors import ClusterError, LedgerError
from tunewright.planner.records import Record, record_line

LIVE_SHARD_BYTES = 32 * 1024
MAX_SHARD_BYTES = 900 * 1024

Decode = Callable[[str, str], list[Record]]
"""From JSON lines and the name of their source to records. The wiring gives it: adapters know nothing of each other."""


class ConfigMapLedger:
    """Records of one run in the run's namespace."""

    def __init__(self, client: KubeClient, run: RunReference, decode: Decode) -> None:
        self._client = client
        self._decode = decode
        self._run = run
        self._shards: list[Document] = []

    async def read(self) -> Sequence[Record]:
        """Return all records; raise `LedgerError` naming the first bad line."""
        self._shards = await read_shards(self._client, self._run)
        return self._decode(shards_text(self._shards), f"ledger of {self._run.key}")

    async def append(self, records: Sequence[Record]) -> None:
        """Add records in one write; raise `LedgerError` when that fails, and then `read` again before the next."""
        text = "".join(f"{record_line(record)}\n" for record in records)
        if len(text.encode()) > MAX_SHARD_BYTES:
            raise LedgerError(f"{len(records)} records have {len(text.encode())} bytes, more than a ConfigMap holds")
        try:
            await self._write(text)
        except ClusterError as error:
            raise LedgerError(f"{self._run.key}: the ledger could not be written: {error}") from error

    @property
    def shard_count(self) -> int:
        """ConfigMaps so far."""
        return len(self._shards)

    @property
    def digest(self) -> str:
        """SHA-256 of all lines so far."""
        return "sha256:" + hashlib.sha256(shards_text(self._shards).encode()).hexdigest()

    async def _write(self, text: str) -> None:
        live = self._shards[-1] if self._shards else None
        if live is not None and not live.get("immutable"):
            if len((shard_text(live) + text).encode()) <= LIVE_SHARD_BYTES:
                self._shards[-1] = await self._patch(live, {"data": {LEDGER_KEY: shard_text(live) + text}})
                return
            # Sealed before there is a next one: so no second writer can go on in the old one.
            self._shards[-1] = await self._patch(live, {"immutable": True})
        shard = ledger_shard(self._run, len(self._shards), text)
        self._shards.append(await self._client.create(CONFIG_MAPS, self._run.namespace, shard))

    async def _patch(self, shard: Document, change: dict[str, Any]) -> Document:
        metadata = shard["metadata"]
        guarded = {**change, "metadata": {"resourceVersion": metadata["resourceVersion"]}}
        return await self._client.patch(CONFIG_MAPS, self._run.namespace, metadata["name"], guarded)


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
