"""Trials as Jobs of the run's namespace. Implements `ports.Trials`."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

from tunewright.adapters.kube import labels
from tunewright.adapters.kube.attempts import (
    AttemptView,
    Document,
    as_job_is,
    identity_of,
    is_queued,
    verdict_text,
    view_attempt,
    without_report,
)
from tunewright.adapters.kube.client import EVENTS, JOBS, PODS, SERVICES, KubeClient, NotFound
from tunewright.adapters.kube.disposal import Disposal, Ended, disposals
from tunewright.adapters.kube.inventory import has_other_nodes
from tunewright.adapters.kube.manifests import PodOptions, trial_job
from tunewright.adapters.kube.multi_node import nodes_service
from tunewright.adapters.kube.names import RunReference, trial_job_name
from tunewright.adapters.kube.seen import JOB_NAME_LABEL, SeenObjects, by_job, is_of_trial
from tunewright.adapters.kube.spec.search import ResultsSpec
from tunewright.errors import Conflict, Transient
from tunewright.ports import TrialObservation
from tunewright.trial_protocol.identity import TrialIdentity
from tunewright.trial_protocol.request import TrialRequest

_MOST_LOOKS = 5
_MOST_AT_ONCE = 16
"""Jobs that are changed at once: a long run whose lifetimes somebody changes has thousands."""
PATIENCE_SECONDS = 10.0
"""A Job without a Pod for longer was probably refused one."""


class KubeTrials:
    """One run's trials. `options` may be replaced between steps: it holds from the next attempt on.

    With `is_watched`, somebody tells `saw` of every Job and Pod: `observe` then asks the API server only before it
    concludes that an attempt failed, is gone or is late, and once more after `look_again`.
    """

    def __init__(self, client: KubeClient, run: RunReference, options: PodOptions, *, is_watched: bool = False) -> None:
        self.options = options
        self._client = client
        self._run = run
        self.nodes_to_avoid: Callable[[str], Collection[str]] = _none
        """Where earlier attempts of a trial met a fault of the node."""
        self._views: tuple[AttemptView, ...] = ()
        self._recorded: dict[str, AttemptView] = {}
        """By Job: attempts whose ends the ledger has. They are not judged again."""
        self._lost: dict[tuple[str, int], TrialObservation] = {}
        self._jobs, self._pods = SeenObjects(), SeenObjects()
        self._is_watched = is_watched
        self._is_known = self._is_fresh = False

    @property
    def views(self) -> tuple[AttemptView, ...]:
        """The attempts as last observed, for the status."""
        return self._views

    def begin_pass(self) -> None:
        """What was looked at before is no longer the latest: from here on conclusions need another look."""
        self._is_fresh = False

    def look_again(self) -> None:
        """Let the next `observe` ask the API server, whatever the watch has shown: it may have gone silent."""
        self._is_known = False

    def saw(self, plural: str, document: Document, *, is_gone: bool) -> None:
        """The watch shows one of the `jobs` or `pods` of this run's name."""
        self._is_fresh = False  # a Job may be shown to have ended before its Pods are
        is_gone = is_gone or not is_of_trial(document, self._run)  # somebody changed its labels
        if plural == JOBS.plural:
            self._jobs.saw(document, is_gone=is_gone)
        elif (document["metadata"].get("labels") or {}).get(JOB_NAME_LABEL) not in self._recorded:
            self._pods.saw(document, is_gone=is_gone)

    async def start(self, request: TrialRequest) -> None:
        """Create the Job of an attempt; one that is already there and ours is fine, a foreign one a `Conflict`.

        Before a Job on several nodes, the Service by which its Pods find each other.
        """
        if request.nodes > 1:
            await self._create_service()
        job = trial_job(self._run, request, self.options, await self._avoided(request))
        try:
            self._jobs.saw(await self._client.create(JOBS, self._run.namespace, job))
        except Conflict:
            self._jobs.saw(await self._check_is_ours(job))

    async def adopt(self, request: TrialRequest) -> None:
        """Give up an attempt whose Job is gone: somebody deleted it, and what it found is lost."""
        identity = request.identity
        if not self._is_fresh:
            await self._look()
        seen = [view.observation for view in self._judged()]
        if (identity.trial, identity.attempt) in [(one.trial, one.attempt) for one in seen]:
            return  # the watch was late: the next `observe` has it
        self._lost[identity.trial, identity.attempt] = TrialObservation(
            trial=identity.trial,
            attempt=identity.attempt,
            state="finished",
            failure="NodeLost",
            message=f"the Job {trial_job_name(self._run, identity)} is gone: it was deleted before its end",
        )

    async def observe(self) -> Sequence[TrialObservation]:
        """Judge every attempt from its Job and Pod, and end those whose time is over."""
        if not self._is_known or not self._is_watched:
            await self._look()
        self._views = await self._concluded()
        self._views = tuple([await self._settled(view) for view in self._views])
        seen = [view.observation for view in self._views]
        there = {(one.trial, one.attempt) for one in seen}
        return [*seen, *(lost for key, lost in self._lost.items() if key not in there)]

    async def _concluded(self) -> tuple[AttemptView, ...]:
        """Judge every attempt, and look before it is said of one that it failed or is late."""
        for _ in range(_MOST_LOOKS):
            views = self._judged()
            if self._is_fresh or not any(_needs_a_look(view) for view in views if not self._is_recorded(view)):
                return tuple(views)
            await self._look()
        raise Transient(f"the trials of {self._run.key} change while they are looked at")

    async def _look(self) -> None:
        """Ask the API server. Jobs first: Pods are then at least as new, so a Job never ends before its Pods do."""
        self._is_fresh = True
        self._jobs.expect()
        self._pods.expect()
        selector = labels.run_selector(self._run, "trial")
        jobs = await self._client.list(JOBS, self._run.namespace, labels=selector)
        pods = await self._client.list(PODS, self._run.namespace, labels=selector)
        self._jobs.listed(jobs)
        self._pods.listed(pod for pod in pods if pod["metadata"]["labels"].get(JOB_NAME_LABEL) not in self._recorded)
        self._is_known = True

    def _judged(self) -> list[AttemptView]:
        """Return every attempt in its order, as its Job and Pods show it now."""
        pods, views = by_job(self._pods.all.values()), []
        for name, job in self._jobs.all.items():
            if not labels.is_owned_by(job, self._run):
                continue
            if name in self._recorded:
                views.append(as_job_is(self._recorded[name], job))
            elif identity := self._identity(job):
                mine, now = pods.get(name, []), self._client.now()
                views.append(view_attempt(job, mine, (), identity, self.options.pod, now))
        return sorted(views, key=lambda view: (view.observation.trial, view.observation.attempt))

    def _is_recorded(self, view: AttemptView) -> bool:
        return view.job_name in self._recorded

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
        self._keep_recorded(ended)
        at_once = asyncio.Semaphore(_MOST_AT_ONCE)

        async def change(job_name: str, disposal: Disposal) -> None:
            async with at_once:
                await self._dispose(job_name, disposal)

        wanted = disposals(self._views, ended, results)
        changed = await asyncio.gather(*[change(*one) for one in wanted.items()], return_exceptions=True)
        for error in changed:
            if error is not None:
                raise error

    async def _dispose(self, job_name: str, disposal: Disposal) -> None:
        if disposal == "delete":
            await self._client.delete(JOBS, self._run.namespace, job_name)
            self._jobs.drop([job_name])
            return
        lifetime = {"spec": {"ttlSecondsAfterFinished": disposal}}
        try:
            self._jobs.saw(await self._client.patch(JOBS, self._run.namespace, job_name, lifetime))
        except NotFound:  # its time came, or somebody deleted it
            self._jobs.drop([job_name])

    async def close(self) -> None:
        """Leave everything in the cluster as it is: Jobs outlive the process that started them."""
        self.nodes_to_avoid = _none

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

    def _keep_recorded(self, ended: Ended) -> None:
        """Keep what the status shows of attempts that the ledger has, as long as they have Jobs; let go of the rest."""
        views = [view for view in self._views if (view.observation.trial, view.observation.attempt) in ended]
        self._recorded = {view.job_name: without_report(view) for view in views}
        pods = by_job(self._pods.all.values())
        self._pods.drop([pod["metadata"]["name"] for view in views for pod in pods.get(view.job_name, ())])

    async def _settled(self, view: AttemptView) -> AttemptView:
        """Ask why an attempt has no Pods where it should have, and end one whose time is over."""
        job = self._jobs.all.get(view.job_name)
        if job is None or self._is_recorded(view):
            return view
        pods = by_job(self._pods.all.values()).get(view.job_name, [])
        missing = len(pods) < (job["spec"].get("completions") or 1) and not is_queued(job)
        if missing and (view.to_end is not None or _waits_long(view)):
            refusals, identity = await self._refusals(view.job_name), identity_of(job, self._run.uid)
            view = view_attempt(job, pods, refusals, identity, self.options.pod, self._client.now())
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
        self._jobs.saw(await self._client.patch(JOBS, self._run.namespace, view.job_name, patch))

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


def _needs_a_look(view: AttemptView) -> bool:
    """Tell whether a conclusion rests on what a watch may not have shown yet. A report is one of its own."""
    return view.observation.state == "finished" and view.observation.report is None


def _waits_long(view: AttemptView) -> bool:
    return view.observation.state == "queued" and view.observation.queued_seconds > PATIENCE_SECONDS
