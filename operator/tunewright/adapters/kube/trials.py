"""Trials as Jobs of the run's namespace. Implements `ports.Trials`."""

import contextlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

from tunewright.adapters.kube import labels
from tunewright.adapters.kube.attempts import (
    AttemptView,
    Document,
    identity_of,
    is_queued,
    verdict_text,
    view_attempt,
)
from tunewright.adapters.kube.client import EVENTS, JOBS, PODS, SERVICES, KubeClient, NotFound
from tunewright.adapters.kube.disposal import Ended, disposals
from tunewright.adapters.kube.inventory import has_other_nodes
from tunewright.adapters.kube.manifests import PodOptions, trial_job
from tunewright.adapters.kube.multi_node import nodes_service
from tunewright.adapters.kube.names import RunReference, trial_job_name
from tunewright.adapters.kube.spec.search import ResultsSpec
from tunewright.errors import Conflict, Transient
from tunewright.ports import TrialObservation
from tunewright.trial_protocol.identity import TrialIdentity
from tunewright.trial_protocol.request import TrialRequest

JOB_NAME_LABEL = "batch.kubernetes.io/job-name"
PATIENCE_SECONDS = 10.0
"""A Job without a Pod for longer was probably refused one."""


class KubeTrials:
    """One run's trials. `options` may be replaced between steps: it holds from the next attempt on."""

    def __init__(self, client: KubeClient, run: RunReference, options: PodOptions) -> None:
        self.options = options
        self._client = client
        self._run = run
        self.nodes_to_avoid: Callable[[str], Collection[str]] = _none
        """Where earlier attempts of a trial met a fault of the node."""
        self._views: tuple[AttemptView, ...] = ()
        self._lost: dict[tuple[str, int], TrialObservation] = {}
        self._looks_once = False
        self._looked: tuple[dict[str, Document], list[Document]] | None = None
        """Jobs by name, and Pods: as last listed, and as this process has written them since."""

    @property
    def views(self) -> tuple[AttemptView, ...]:
        """The attempts as last observed, for the status."""
        return self._views

    def look_again(self) -> None:
        """From here on `observe` lists once, until the next call: what changes meanwhile announces itself.

        Without that a pass that decides, starts and records would list everything before each of its steps.
        """
        self._looks_once, self._looked = True, None

    async def start(self, request: TrialRequest) -> None:
        """Create the Job of an attempt; one that is already there and ours is fine, a foreign one a `Conflict`.

        Before a Job on several nodes, the Service by which its Pods find each other.
        """
        if request.nodes > 1:
            await self._create_service()
        job = trial_job(self._run, request, self.options, await self._avoided(request))
        try:
            self._note(await self._client.create(JOBS, self._run.namespace, job))
        except Conflict:
            self._note(await self._check_is_ours(job))

    async def adopt(self, request: TrialRequest) -> None:
        """Give up an attempt whose Job is gone: somebody deleted it, and what it found is lost."""
        identity = request.identity
        self._lost[identity.trial, identity.attempt] = TrialObservation(
            trial=identity.trial,
            attempt=identity.attempt,
            state="finished",
            failure="NodeLost",
            message=f"the Job {trial_job_name(self._run, identity)} is gone: it was deleted before its end",
        )

    async def observe(self) -> Sequence[TrialObservation]:
        """Judge every attempt from its Job and Pod, and end those whose time is over."""
        jobs, pods = await self._list()
        by_job: dict[str, list[Document]] = {}
        for pod in pods:
            by_job.setdefault(pod["metadata"]["labels"].get(JOB_NAME_LABEL, ""), []).append(pod)
        ours = [
            (identity, job)
            for job in jobs.values()
            if labels.is_owned_by(job, self._run) and (identity := self._identity(job))
        ]
        ours.sort(key=lambda pair: (pair[0].trial, pair[0].attempt))
        self._views = tuple(
            [await self._view(identity, job, by_job.get(job["metadata"]["name"], [])) for identity, job in ours]
        )
        seen = [view.observation for view in self._views]
        there = {(one.trial, one.attempt) for one in seen}
        return [*seen, *(lost for key, lost in self._lost.items() if key not in there)]

    async def _list(self) -> tuple[dict[str, Document], list[Document]]:
        if self._looked is not None:
            return dict(self._looked[0]), self._looked[1]
        selector = labels.run_selector(self._run, "trial")
        jobs = await self._client.list(JOBS, self._run.namespace, labels=selector)
        pods = await self._client.list(PODS, self._run.namespace, labels=selector)
        by_name = {job["metadata"]["name"]: job for job in jobs}
        self._looked = (by_name, pods) if self._looks_once else None
        return dict(by_name), pods

    def _note(self, job: Document) -> None:
        """Remember a Job as it was just written."""
        if self._looked is not None:
            self._looked[0][job["metadata"]["name"]] = job

    async def stop(self, trial: str, attempt: int) -> None:
        """End an attempt as Cancelled; one that is not there or already over is fine."""
        for view in self._views:
            seen = view.observation
            if (seen.trial, seen.attempt) == (trial, attempt) and seen.state != "finished":
                ended = replace(seen, state="finished", failure="Cancelled", message="stopped by the planner")
                await self._end(view, ended)

    async def interrupt(self) -> None:
        """End every attempt that waits or runs as Interrupted: it counts as no attempt, and is made again later."""
        for seen, view in zip(await self.observe(), self._views, strict=False):
            if seen.state != "finished":
                message = "the run was suspended: the trial runs again afterwards"
                ended = replace(seen, state="finished", failure="Interrupted", message=message)
                await self._end(view, ended)

    async def dispose(self, ended: Ended, results: ResultsSpec) -> None:
        """Give the Jobs of ended attempts their lifetime, once the ledger has their results."""
        for job_name, disposal in disposals(self._views, ended, results).items():
            if disposal == "delete":
                await self._client.delete(JOBS, self._run.namespace, job_name)
                continue
            with contextlib.suppress(NotFound):  # its time came, or somebody deleted it
                lifetime = {"spec": {"ttlSecondsAfterFinished": disposal}}
                await self._client.patch(JOBS, self._run.namespace, job_name, lifetime)

    async def close(self) -> None:
        """Leave everything as it is: Jobs outlive the process that started them."""

    async def _avoided(self, request: TrialRequest) -> Collection[str]:
        """Return the nodes to avoid; none where there are no others, or the trial would wait for ever."""
        nodes = self.nodes_to_avoid(request.identity.trial) if request.identity.attempt > 1 else ()
        enough = bool(nodes) and await has_other_nodes(self._client, self.options, nodes, request.nodes)
        return nodes if enough else ()

    def _identity(self, job: Document) -> TrialIdentity | None:
        """Return whose attempt a Job is; None where somebody changed its labels, so that nothing can be said of it."""
        try:
            return identity_of(job, self._run.uid)
        except (KeyError, ValueError):
            return None

    async def _view(self, identity: TrialIdentity, job: Document, pods: Sequence[Document]) -> AttemptView:
        now = self._client.now()
        view = view_attempt(job, pods, (), identity, self.options.pod, now)
        missing = len(pods) < (job["spec"].get("completions") or 1) and not is_queued(job)
        if missing and (view.to_end is not None or _waits_long(view)):
            refusals = await self._refusals(view.job_name)
            view = view_attempt(job, pods, refusals, identity, self.options.pod, now)
        if view.to_end is not None:
            await self._end(view, view.observation)
        return view

    async def _end(self, view: AttemptView, observation: TrialObservation) -> None:
        """End a Job's Pods and keep the Job, which then carries the verdict.

        Suspending does that; but a queue would let a suspended Job run again, so there the Job's time is up.
        """
        patch: dict[str, Any] = {
            "metadata": {"annotations": {labels.VERDICT: verdict_text(observation)}},
            "spec": {"activeDeadlineSeconds": 1} if view.has_queue else {"suspend": True},
        }
        self._note(await self._client.patch(JOBS, self._run.namespace, view.job_name, patch))

    async def _refusals(self, job_name: str) -> list[str]:
        """Why no Pod was created: only events tell."""
        selector = f"involvedObject.kind=Job,involvedObject.name={job_name},reason=FailedCreate"
        events = await self._client.list(EVENTS, self._run.namespace, fields=selector)
        return [str(event.get("message", "")) for event in events]

    async def _create_service(self) -> None:
        service = nodes_service(self._run)
        try:
            await self._client.create(SERVICES, self._run.namespace, service)
        except Conflict:
            name = service["metadata"]["name"]
            found = await self._client.find(SERVICES, self._run.namespace, name)
            if found is None or found["metadata"].get("deletionTimestamp"):
                raise Transient(f"the Service {name} is going away") from None
            if not labels.is_owned_by(found, self._run):
                raise Conflict(f"the Service {self._run.namespace}/{name} is not ours: delete or rename it") from None

    async def _check_is_ours(self, job: Document) -> Document:
        name = job["metadata"]["name"]
        found = await self._client.find(JOBS, self._run.namespace, name)
        if found is None or found["metadata"].get("deletionTimestamp"):
            raise Transient(f"the Job {name} of a deleted namesake is still going away")
        wanted = job["metadata"]["annotations"][labels.CONFIG_DIGEST]
        digest = (found["metadata"].get("annotations") or {}).get(labels.CONFIG_DIGEST)
        if not labels.is_owned_by(found, self._run) or digest != wanted:
            raise Conflict(f"the Job {self._run.namespace}/{name} is not ours: delete or rename it")
        return found


def _none(_: str) -> Collection[str]:
    return ()


def _waits_long(view: AttemptView) -> bool:
    return view.observation.state == "queued" and view.observation.queued_seconds > PATIENCE_SECONDS
