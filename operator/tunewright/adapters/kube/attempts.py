"""What became of one trial attempt, by its Job, its Pods and refusals to create them. Called by `trials`; pure.

An exit code proves nothing: only a valid report of exactly this attempt is a result. Where the operator has to end an
attempt itself, the verdict is written onto the suspended Job, so that a restarted operator reads it back.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import TypeAdapter

from tunewright.adapters.kube import labels
from tunewright.adapters.kube.members import Members, Outcome, gpu_pod_seconds, members_of, settled
from tunewright.adapters.kube.pod_state import (
    Verdict,
    began_at,
    ended_at,
    has_started,
    node_of,
    seconds,
    unscheduled,
    why_waiting,
)
from tunewright.adapters.kube.spec.trial import PodSpec
from tunewright.ports import TrialObservation
from tunewright.trial_protocol.identity import TrialIdentity, TrialKind
from tunewright.trial_protocol.report import FailureClass

Document = dict[str, Any]

RUN_GRACE_SECONDS = 60
"""The trial's own watchdog goes first: its report says more than the operator's."""
_TERMINATING_SECONDS = 150
_MAX_MESSAGE = 900
_NO_MEETING = "the Pods run and do not meet: is there DNS for the run's Service, and may the Pods talk to each other?"
_FAILURES: TypeAdapter[FailureClass] = TypeAdapter(FailureClass)


@dataclass(frozen=True)
class AttemptView:
    """One attempt. `to_end` is set when the operator must end the Job and write this verdict onto it."""

    job_name: str
    kind: TrialKind
    observation: TrialObservation
    to_end: Verdict | None = None
    waits_for: Verdict | None = None
    """Why it has not started, where somebody refuses it: as it would be told if it never does."""
    is_suspended: bool = False
    has_queue: bool = False
    lifetime_seconds: int | None = None
    """Of the Job, from its end on."""


@dataclass(frozen=True)
class _Times:
    """`waited_seconds` counts against the start deadline, `ran_seconds` against the run deadline."""

    started: bool
    queued_seconds: float
    waited_seconds: float
    ran_seconds: float


def identity_of(job: Document, run_uid: str) -> TrialIdentity:
    """Read whose attempt a Job is."""
    metadata = job["metadata"]
    own = metadata["labels"]
    return TrialIdentity.model_validate(
        {
            "run_uid": run_uid,
            "trial": own[labels.TRIAL],
            "attempt": int(own[labels.ATTEMPT]),
            "kind": own[labels.TRIAL_KIND],
            "config_digest": metadata["annotations"][labels.CONFIG_DIGEST],
        }
    )


def view_attempt(
    job: Document, pods: Sequence[Document], refusals: Sequence[str], identity: TrialIdentity, pod: PodSpec, now: float
) -> AttemptView:
    """Judge one attempt. `refusals` are messages of FailedCreate events; `now` is in seconds since the epoch."""
    recorded = _recorded_view(job, identity)
    if recorded is not None:
        return recorded
    members = members_of(job, pods)
    times = _times(job, members, now)
    ended = _outcome(job, members, identity, now)
    to_end = _others_end(ended) if ended else _overdue(members, refusals, pod, times, now)
    waiting = None if ended or to_end or times.started else _refused(job, members, refusals)
    observation = TrialObservation(
        trial=identity.trial,
        attempt=identity.attempt,
        state="finished" if ended or to_end else "running" if times.started else "queued",
        report=ended.report if ended else None,
        failure=ended.failure if ended else to_end.failure if to_end else None,
        message=(ended or to_end or Outcome()).message[:_MAX_MESSAGE],
        node=ended.node if ended and ended.node else node_of(members[0]),
        gpu_seconds=gpu_pod_seconds(members, now) * _gpus(job, pod.resource_name),
        queued_seconds=times.queued_seconds,
    )
    return _view(job, identity, observation, to_end, waiting)


def _view(
    job: Document,
    identity: TrialIdentity,
    observation: TrialObservation,
    to_end: Verdict | None = None,
    waits_for: Verdict | None = None,
) -> AttemptView:
    return AttemptView(
        job_name=job["metadata"]["name"],
        kind=identity.kind,
        observation=observation,
        to_end=to_end,
        waits_for=waits_for,
        is_suspended=bool(job["spec"].get("suspend")),
        has_queue=_has_queue(job),
        lifetime_seconds=job["spec"].get("ttlSecondsAfterFinished"),
    )


def as_job_is(view: AttemptView, job: Document) -> AttemptView:
    """Return an attempt that is judged already, with what may still change of its Job."""
    lifetime, is_suspended = job["spec"].get("ttlSecondsAfterFinished"), bool(job["spec"].get("suspend"))
    if (view.lifetime_seconds, view.is_suspended) == (lifetime, is_suspended):
        return view
    return replace(view, lifetime_seconds=lifetime, is_suspended=is_suspended)


def without_report(view: AttemptView) -> AttemptView:
    """Return an attempt as the status shows it: the ledger has the rest."""
    if view.observation.report is None:
        return view
    return replace(view, observation=replace(view.observation, report=None))


def verdict_text(observation: TrialObservation) -> str:
    """Return the annotation that keeps a verdict of the operator on the Job."""
    return json.dumps(
        {
            "failure": observation.failure,
            "message": observation.message,
            "node": observation.node,
            "gpuSeconds": observation.gpu_seconds,
            "queuedSeconds": observation.queued_seconds,
        },
        sort_keys=True,
    )


def _recorded_view(job: Document, identity: TrialIdentity) -> AttemptView | None:
    """Read a verdict back. An annotation that somebody damaged counts as none: the Job is judged again."""
    try:
        recorded = json.loads(job["metadata"]["annotations"][labels.VERDICT])
        observation = TrialObservation(
            trial=identity.trial,
            attempt=identity.attempt,
            state="finished",
            failure=_FAILURES.validate_python(recorded["failure"]),
            message=str(recorded["message"]),
            node=str(recorded["node"]),
            gpu_seconds=float(recorded["gpuSeconds"]),
            queued_seconds=float(recorded["queuedSeconds"]),
        )
    except (KeyError, TypeError, ValueError):
        return None
    return _view(job, identity, observation)


def _outcome(job: Document, members: Members, identity: TrialIdentity, now: float) -> Outcome | None:
    """Return how an attempt ended by itself: by what its Pods say, else by what its Job says.

    A trial that its queue interrupts reports that it was; what becomes of it the Job tells: it may run again.
    """
    conditions = _true_conditions(job)
    is_over = not {"Complete", "FailureTarget", "Failed"}.isdisjoint(conditions)
    ended = settled(members, identity, now, is_job_over=is_over)
    if ended is not None and (is_over or ended.failure != "Preempted" or not _has_queue(job)):
        return ended
    alive = any(pod is not None for pod in members)
    verdict = _evicted(job, conditions) or _from_job(conditions, is_alive=alive)
    return Outcome(verdict=verdict, message=verdict.message) if verdict else None


def _others_end(ended: Outcome) -> Verdict | None:
    """The Job of a lost node's Pod does not fail before that Pod is gone: its peers would hang on."""
    return Verdict(ended.failure, ended.message) if ended.others_run and ended.failure else None


def _true_conditions(job: Document) -> dict[str, Document]:
    conditions = job.get("status", {}).get("conditions") or ()
    return {condition["type"]: condition for condition in conditions if condition["status"] == "True"}


def _evicted(job: Document, conditions: Mapping[str, Document]) -> Verdict | None:
    """A queue suspends what it evicts; Pods that end with a failure then, as ours do when interrupted, fail the Job."""
    if is_queued(job) and not {"FailureTarget", "Failed"}.isdisjoint(conditions):
        return Verdict("Preempted", f"the queue {job['metadata']['labels'][labels.QUEUE]} took its room back")
    return None


def _from_job(conditions: Mapping[str, Document], *, is_alive: bool) -> Verdict | None:
    """A Job that ended although no container of it is seen to have ended."""
    failed = conditions.get("Failed") or (None if is_alive else conditions.get("FailureTarget"))
    if failed is not None and failed.get("reason") == "DeadlineExceeded":
        return Verdict("ResultMissing", "the Job's own deadline passed while no operator looked after it")
    if failed is not None:
        return Verdict("NodeLost", f"the Pod is gone without a report ({failed.get('reason', '')})")
    if "Complete" in conditions:
        return Verdict("ResultMissing", "the Job is complete, and no report of it is to be seen")
    return None


def _overdue(members: Members, refusals: Sequence[str], spec: PodSpec, times: _Times, now: float) -> Verdict | None:
    if times.started and times.ran_seconds > spec.run_deadline_seconds + RUN_GRACE_SECONDS:
        return Verdict("Timeout", f"ran longer than pod.runDeadlineSeconds {spec.run_deadline_seconds}")
    for pod in members:
        deleted = (pod or {}).get("metadata", {}).get("deletionTimestamp")
        if deleted and now - seconds(deleted) > _TERMINATING_SECONDS:
            return Verdict("NodeLost", f"the Pod has been terminating since {deleted}")
    if not times.started and times.waited_seconds > spec.start_deadline_seconds:
        why = _not_started(members, refusals)
        late = f"not started within pod.startDeadlineSeconds {spec.start_deadline_seconds}"
        return Verdict(why.failure, f"{late}: {why.message}")
    return None


def _refused(job: Document, members: Members, refusals: Sequence[str]) -> Verdict | None:
    """Return what keeps an attempt from starting, where the API server, a queue or the scheduler said so."""
    if is_queued(job):
        queue = job["metadata"]["labels"][labels.QUEUE]
        doubt = "does the LocalQueue exist, and does Kueue run?"
        return Verdict("QuotaExceeded", f"the queue {queue} has not admitted it; if that stays so, {doubt}")
    held = refusals or any(pod is not None and unscheduled(pod) for pod in members)
    return _not_started(members, refusals) if held else None


def is_queued(job: Document) -> bool:
    """Tell whether a queue holds a Job back, or has put it back: that is no time of its own."""
    return bool(job["spec"].get("suspend")) and _has_queue(job)


def _has_queue(job: Document) -> bool:
    return labels.QUEUE in job["metadata"]["labels"]


def _not_started(members: Members, refusals: Sequence[str]) -> Verdict:
    """Return what the first Pod that has not started waits for; where there are several Pods, with its number."""
    if refusals and any(pod is None for pod in members):
        failure: FailureClass = "QuotaExceeded" if "exceeded quota" in refusals[-1] else "AdmissionDenied"
        return Verdict(failure, refusals[-1])
    for index, pod in enumerate(members):
        if pod is not None and began_at(pod) is not None:
            continue
        why = why_waiting(pod) if pod is not None else Verdict("Unschedulable", "no Pod was created")
        return why if len(members) == 1 else Verdict(why.failure, f"node {index}: {why.message}")
    return Verdict("RcclFailure", _NO_MEETING)


def _times(job: Document, members: Members, now: float) -> _Times:
    """An attempt starts when the last of its Pods does: none trains before. What has ended runs no longer."""
    created = seconds(job["metadata"]["creationTimestamp"])
    if is_queued(job):
        return _Times(False, max(0.0, now - created), 0.0, 0.0)
    begun = [began for pod in members if pod is not None and (began := began_at(pod)) is not None]
    if len(begun) == len(members) and all(pod is not None and has_started(pod) for pod in members):
        until = max((pod and ended_at(pod)) or now for pod in members)
        return _Times(True, max(0.0, max(begun) - created), 0.0, max(0.0, until - max(begun)))
    waited = now - (_admitted_at(job, now) if _has_queue(job) else created)
    return _Times(False, max(0.0, now - created), max(0.0, waited), 0.0)


def _admitted_at(job: Document, now: float) -> float:
    """Return when a queue let a Job run: the Job controller sets the time, and clears it when it is put back."""
    started = job.get("status", {}).get("startTime")
    return seconds(started) if started else now


def _gpus(job: Document, resource: str) -> int:
    limits = job["spec"]["template"]["spec"]["containers"][0].get("resources", {}).get("limits") or {}
    return int(limits.get(resource, 0))
