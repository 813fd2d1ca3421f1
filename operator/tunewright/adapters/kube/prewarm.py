"""Pulls the trial image on every node that trials may use, before the first of them: a Job of one Pod for each node.

Called by the controller's live runs. The Jobs go with the run and are no trials: they ask for no accelerator, and once
there is a trial they are deleted. Nothing rests on them: whatever becomes of them, the run goes on.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence

from tunewright.adapters.kube import labels
from tunewright.adapters.kube.affinity import on_node
from tunewright.adapters.kube.client import JOBS, PODS, Document, KubeClient
from tunewright.adapters.kube.events import post, transition_event
from tunewright.adapters.kube.inventory import PREWARMING, Capacity, open_nodes
from tunewright.adapters.kube.manifests import CONTAINER, CONTAINER_SECURITY, PodOptions, pod_base
from tunewright.adapters.kube.names import RunReference
from tunewright.adapters.kube.pod_state import seconds, why_waiting
from tunewright.adapters.kube.seen import JOB_NAME_LABEL
from tunewright.errors import ClusterError, Transient

COMPONENT = "prewarm"
MOST_NODES = 128
"""More would cost the API server more than they save the run."""
PREWARMED, PREWARM_INCOMPLETE = "Prewarmed", "PrewarmIncomplete"
"""Reasons of the Event that says how it ended."""
NO_NODE = "the operator sees no node for the trial image"
_MOST_NAMED = 4
_RESOURCES = {"cpu": "100m", "memory": "64Mi"}
"""Next to nothing, and said so: a quota may ask for a number."""


def prewarm_job(run: RunReference, node: str, options: PodOptions) -> Document:
    """Return the Job that pulls the image on one node: a Pod there that ends as soon as it may begin."""
    own_labels = labels.run_labels(run, COMPONENT)
    container = {
        "name": CONTAINER,
        "image": options.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["true"],
        "resources": {"requests": dict(_RESOURCES), "limits": dict(_RESOURCES)},
        "securityContext": dict(CONTAINER_SECURITY),
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": prewarm_name(run, node),
            "namespace": run.namespace,
            "labels": own_labels,
            "ownerReferences": [labels.owner_reference(run)],
        },
        "spec": {
            "backoffLimit": 0,
            "activeDeadlineSeconds": options.pod.start_deadline_seconds,
            "template": {
                "metadata": {"labels": own_labels},
                "spec": pod_base(options, on_node(node), containers=[container]),
            },
        },
    }


def prewarm_name(run: RunReference, node: str) -> str:
    """Return ``<run>-prewarm-3fa9c2d1e0``, from the run's id and the node."""
    return f"{run.name}-prewarm-{hashlib.sha256(f'{run.uid}/{node}'.encode()).hexdigest()[:10]}"


class Prewarm:
    """That of one run. `look` until there is nothing to wait for, then `end`."""

    def __init__(self, client: KubeClient, run: RunReference) -> None:
        self._client = client
        self._run = run
        self._is_gone = False
        self._began = math.inf
        """Since when the run waits: whatever becomes of the Jobs meanwhile, it waits no longer for that."""

    async def look(self, options: PodOptions, at: str) -> Capacity | None:
        """Return what the run waits for; None once the image is there or its time is over, which an Event of `at` says.

        Starts what is missing, also what somebody deleted; nodes that come while it waits count as well.
        """
        self._is_gone = False
        nodes = (await open_nodes(self._client, options))[:MOST_NODES]
        jobs = await self._jobs()
        by_node = {node: jobs.get(prewarm_name(self._run, node)) or await self._create(node, options) for node in nodes}
        missing = {node: job for node, job in by_node.items() if not _has(job, "Complete")}
        told = f"the trial image is on {len(nodes) - len(missing)} of {len(nodes)} node(s)" if nodes else NO_NODE
        if missing:
            told += f", not on {await self._why(missing)}"
        now, created = self._client.now(), [_created(job) for job in jobs.values() if not _goes(job)]
        self._began = min(self._began, now, *created)
        in_time = now < self._began + options.pod.start_deadline_seconds
        if in_time and not all(_has(job, "Failed") for job in missing.values()):
            return Capacity(True, PREWARMING, told)
        await self._tell(told, at, is_whole=bool(nodes) and not missing)
        return None

    async def end(self) -> None:
        """Delete the Jobs, and from then on ask nothing of the API server."""
        self._began = math.inf
        if self._is_gone:
            return
        for name, job in (await self._jobs()).items():
            await self._client.delete(JOBS, self._run.namespace, name, uid=job["metadata"]["uid"])
        self._is_gone = True

    async def _jobs(self) -> Mapping[str, Document]:
        selector = labels.run_selector(self._run, COMPONENT)
        found = await self._client.list(JOBS, self._run.namespace, labels=selector)
        return {job["metadata"]["name"]: job for job in found if labels.is_owned_by(job, self._run)}

    async def _create(self, node: str, options: PodOptions) -> Document:
        """Return the Job of a node; one that the API server refuses as failed, since the run goes on without it."""
        job = prewarm_job(self._run, node, options)
        try:
            return await self._client.create(JOBS, self._run.namespace, job)
        except Transient:
            raise
        except ClusterError as error:
            refused = {"type": "Failed", "status": "True", "reason": "NotCreated", "message": str(error)}
            return {**job, "status": {"conditions": [refused]}}

    async def _why(self, missing: Mapping[str, Document]) -> str:
        """Name the nodes without the image, and what their Pods or Jobs say."""
        selector = labels.run_selector(self._run, COMPONENT)
        pods = await self._client.list(PODS, self._run.namespace, labels=selector)
        named = [f"{node}: {_word(job, pods)}" for node, job in sorted(missing.items())]
        more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
        return f"{'; '.join(named[:_MOST_NAMED])}{more}"

    async def _tell(self, told: str, at: str, *, is_whole: bool) -> None:
        reason = PREWARMED if is_whole else PREWARM_INCOMPLETE
        said = told if is_whole else f"{told}: trials pull it themselves"
        await post(self._client, transition_event(self._run, reason, said, warning=not is_whole, at=at))


def _word(job: Document, pods: Sequence[Document]) -> str:
    for condition in _conditions(job):
        if condition["type"] == "Failed":
            return f"{condition.get('reason', '')} {condition.get('message', '')}".strip()
    name = job["metadata"]["name"]
    pod = next((one for one in pods if one["metadata"]["labels"].get(JOB_NAME_LABEL) == name), None)
    return why_waiting(pod).message[:200] if pod is not None else "it has no Pod yet"


def _goes(job: Document) -> bool:
    return "deletionTimestamp" in job["metadata"]


def _has(job: Document, kind: str) -> bool:
    return any(condition["type"] == kind for condition in _conditions(job))


def _conditions(job: Document) -> list[Document]:
    return [one for one in (job.get("status") or {}).get("conditions") or () if one["status"] == "True"]


def _created(job: Document) -> float:
    return seconds(job["metadata"]["creationTimestamp"])
