"""What explains a run, as files without secrets. Called by `tunewright support-bundle`.

Secrets are never read. Values of environment variables, and annotations that repeat them, are left out.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from tunewright.adapters.kube import labels
from tunewright.adapters.kube.client import (
    CONFIG_MAPS,
    EVENTS,
    JOBS,
    NODES,
    PODS,
    TUNING_RUNS,
    Document,
    KubeClient,
    Resource,
)
from tunewright.adapters.kube.ledger import shards_text
from tunewright.adapters.kube.support_summary import summary_of
from tunewright.errors import ClusterError

HIDDEN = "(hidden)"
OPERATOR_PODS = "app.kubernetes.io/name=tunewright"
LOG_LINES = 2000
_REPEATING = "kubectl.kubernetes.io/last-applied-configuration"
_OF_NODES = ("capacity", "allocatable", "conditions", "nodeInfo")


async def gather(client: KubeClient, namespace: str, name: str, operator_namespace: str) -> dict[str, str]:
    """Return the files by name. What is not there or may not be read is named in `summary.txt`."""
    reader = _Reader(client)
    of_run = f"{labels.OWN_OBJECTS},{labels.RUN}={name}"
    run = await reader.run(namespace, name)
    config_maps = await reader.listed("ledger and result", CONFIG_MAPS, namespace, of_run)
    pods = await reader.listed("Pods", PODS, namespace, of_run)
    operators = await reader.listed("operator", PODS, operator_namespace, OPERATOR_PODS)
    shards, results = parted(config_maps)
    documents = {
        "run": [run] if run else [],
        "result": results,
        "events": events_of(await reader.listed("Events", EVENTS, namespace), name),
        "jobs": await reader.listed("Jobs", JOBS, namespace, of_run),
        "pods": pods,
        "nodes": [node_facts(node) for node in await reader.listed("nodes", NODES)],
    }
    logs = await reader.logs([*pods, *operators])
    if not run and not config_maps:
        reader.unread.append(f"run: {namespace}/{name} is not there, and neither is a ledger of it")
    files = {"ledger.jsonl": shards_text(shards), **yaml_files(documents), **logs}
    summary = summary_of(f"{namespace}/{name}", run, reader.unread)
    return {"summary.txt": summary, **{file: text for file, text in files.items() if text}}


class _Reader:
    """Reads what it may. `unread` says what it could not, and why."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self.unread: list[str] = []

    async def run(self, namespace: str, name: str) -> Document | None:
        try:
            return await self._client.find(TUNING_RUNS, namespace, name)
        except ClusterError as error:
            self.unread.append(f"run: {error}")
            return None

    async def listed(self, what: str, resource: Resource, namespace: str = "", selector: str = "") -> list[Document]:
        try:
            return await self._client.list(resource, namespace, labels=selector)
        except ClusterError as error:
            self.unread.append(f"{what}: {error}")
            return []

    async def logs(self, pods: Sequence[Document]) -> dict[str, str]:
        found = {}
        for metadata in (pod["metadata"] for pod in pods):
            file = f"logs/{metadata['namespace']}/{metadata['name']}.log"
            try:
                found[file] = await self._client.log(metadata["namespace"], metadata["name"], LOG_LINES)
            except ClusterError as error:
                self.unread.append(f"{file}: {error}")
        return found


def parted(config_maps: Sequence[Document]) -> tuple[list[Document], list[Document]]:
    """Return the shards of the ledger, in order, and everything else."""
    in_order = sorted(config_maps, key=lambda one: str(one["metadata"]["name"]))
    shards = [one for one in in_order if one["metadata"]["labels"].get(labels.COMPONENT) == "ledger"]
    return shards, [one for one in in_order if one not in shards]


def events_of(events: Sequence[Document], run: str) -> list[Document]:
    """Return the Events of a run, its Jobs and its Pods."""
    names = [(event, str(event["involvedObject"].get("name", ""))) for event in events]
    return [event for event, name in names if name == run or name.startswith(f"{run}-")]


def node_facts(node: Document) -> Document:
    """Return what scheduling looks at: no addresses, images or annotations."""
    metadata, status = node["metadata"], node.get("status") or {}
    return {
        "metadata": {"name": metadata["name"], "labels": metadata.get("labels") or {}},
        "spec": {"taints": (node.get("spec") or {}).get("taints") or []},
        "status": {part: status[part] for part in _OF_NODES if part in status},
    }


def yaml_files(found: Mapping[str, Sequence[Document]]) -> dict[str, str]:
    """Return one YAML file for each kind that has objects, cleaned."""
    return {
        f"{name}.yaml": yaml.safe_dump_all([cleaned(one) for one in documents], sort_keys=False, width=120)
        for name, documents in found.items()
        if documents
    }


def cleaned(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return a document without managed fields, repeating annotations and values of environment variables."""
    if isinstance(value, list):
        return [cleaned(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    kept = {key: cleaned(item) for key, item in value.items() if key not in ("managedFields", _REPEATING)}
    if isinstance(kept.get("env"), list):
        kept["env"] = [_without_value(item) for item in kept["env"]]
    return kept


def _without_value(variable: Any) -> Any:  # noqa: ANN401
    return {**variable, "value": HIDDEN} if isinstance(variable, Mapping) and "value" in variable else variable
