"""What became of one trial attempt, by its Job, its Pod and refusals to create that Pod. Called by `trials`; pure.

An exit code proves nothing: only a valid report of exactly this attempt is a result. Where the operator has to end an
attempt itself, the verdict is written onto the suspended Job, so that a restarted operator reads it back.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from pydantic import TypeAdapter

from tunewright.adapters.kube import labels
from tunewright.adapters.kube.manifests import CONTAINER
from tunewright.adapters.kube.spec.trial import PodSpec
from tunewright.errors import ProtocolError
from tunewright.ports import TrialObservation
from tunewright.trial_protocol.codec import decode_report
from tunewright.trial_protocol.identity import TrialIdentity, TrialKind
from tunewright.trial_protocol.report import FailureClass, TrialReport

Document = dict[str, Any]

RUN_GRACE_SECONDS = 60
"""The trial's own watchdog goes first: its report says more than the operator's."""
_TERMINATING_SECONDS = 150
_IMAGE_REASONS = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
_PREEMPTION_REASONS = frozenset({"PreemptionByScheduler", "EvictionByEvictionAPI"})
_MAX_MESSAGE = 900
_FAILURES: TypeAdapter[FailureClass] = TypeAdapter(FailureClass)


@dataclass(frozen=True)
class Verdict:
    """How an attempt ended without a report."""

    failure: FailureClass
    message: str


@dataclass(frozen=True)
class AttemptView:
    """One attempt. `to_end` is set when the operator must end the Job and write this verdict onto it."""

    job_name: str
    kind: TrialKind
    observation: TrialObservation
    to_end: Verdict | None = None


@dataclass(frozen=True)
class _Times:
    node: str
    queued_seconds: float
    ran_seconds: float
    started: bool


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
    newest = max(pods, key=lambda item: str(item["metadata"]["creationTimestamp"]), default=None)
    recorded = _recorded_view(job, identity)
    if recorded is not None:
        return recorded
    times = _times(job, newest, now)
    report, ended = _outcome(job, newest, identity)
    to_end = None if report or ended else _overdue(job, newest, refusals, pod, times, now)
    verdict = ended or to_end
    observation = TrialObservation(
        trial=identity.trial,
        attempt=identity.attempt,
        state="finished" if report or verdict else "running" if times.started else "queued",
        report=report,
        failure=verdict.failure if verdict else report.failure if report else None,
        message=verdict.message[:_MAX_MESSAGE] if verdict else report.message if report else "",
        node=times.node,
        gpu_seconds=times.ran_seconds * _gpus(job, pod.resource_name),
        queued_seconds=times.queued_seconds,
    )
    return AttemptView(job["metadata"]["name"], identity.kind, observation, to_end)


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
    return AttemptView(job["metadata"]["name"], identity.kind, observation)


def _outcome(job: Document, pod: Document | None, identity: TrialIdentity) -> tuple[TrialReport | None, Verdict | None]:
    """Return the report, or why there will be none, or neither while the attempt is alive."""
    terminated = _terminated(pod)
    if terminated is not None:
        return _from_container(cast("Document", pod), terminated, identity)
    lost = _disruption(pod)
    if lost is not None:
        return None, lost
    if pod is not None and pod["status"].get("phase") == "Failed":
        why = pod["status"].get("message") or pod["status"].get("reason") or "no reason given"
        return None, Verdict("NodeLost", f"the Pod failed before its container ran: {why}")
    return None, _from_job(job, pod)


def _from_container(
    pod: Document, terminated: Document, identity: TrialIdentity
) -> tuple[TrialReport | None, Verdict | None]:
    if terminated.get("reason") == "OOMKilled":
        return None, Verdict("HostOOMKilled", "the kernel killed a process of the trial: raise its memory limit")
    text = terminated.get("message") or ""
    if text:
        try:
            return decode_report(text, identity), None
        except ProtocolError as error:
            return None, Verdict("ResultInvalid", str(error))
    lost = _disruption(pod)
    if lost is not None:
        return None, lost
    code = terminated.get("exitCode")
    return None, Verdict("ResultMissing", f"the trial ended with exit code {code} and left no report")


def _disruption(pod: Document | None) -> Verdict | None:
    for condition in (pod or {}).get("status", {}).get("conditions") or ():
        if condition["type"] == "DisruptionTarget" and condition["status"] == "True":
            reason = condition.get("reason", "")
            failure: FailureClass = "Preempted" if reason in _PREEMPTION_REASONS else "NodeLost"
            return Verdict(failure, f"{reason}: {condition.get('message', '')}")
    return None


def _from_job(job: Document, pod: Document | None) -> Verdict | None:
    """A Job that ended although no container of it is seen to have ended."""
    ended = {
        condition["type"]: condition
        for condition in job.get("status", {}).get("conditions") or ()
        if condition["status"] == "True"
    }
    failed = ended.get("Failed") or (None if pod else ended.get("FailureTarget"))
    if failed is not None and failed.get("reason") == "DeadlineExceeded":
        return Verdict("ResultMissing", "the Job's own deadline passed while no operator looked after it")
    if failed is not None:
        return Verdict("NodeLost", f"the Pod is gone without a report ({failed.get('reason', '')})")
    if "Complete" in ended:
        return Verdict("ResultMissing", "the Job is complete, and no report of it is to be seen")
    return None


def _overdue(
    job: Document, pod: Document | None, refusals: Sequence[str], spec: PodSpec, times: _Times, now: float
) -> Verdict | None:
    if times.started and times.ran_seconds > spec.run_deadline_seconds + RUN_GRACE_SECONDS:
        return Verdict("Timeout", f"ran longer than pod.runDeadlineSeconds {spec.run_deadline_seconds}")
    deleted = (pod or {}).get("metadata", {}).get("deletionTimestamp")
    if deleted and now - _seconds(deleted) > _TERMINATING_SECONDS:
        return Verdict("NodeLost", f"the Pod has been terminating since {deleted}")
    if not times.started and times.queued_seconds > spec.start_deadline_seconds:
        return _not_started(pod, refusals, spec)
    return None


def _not_started(pod: Document | None, refusals: Sequence[str], spec: PodSpec) -> Verdict:
    late = f"not started within pod.startDeadlineSeconds {spec.start_deadline_seconds}"
    if pod is None:
        why = refusals[-1] if refusals else "no Pod was created"
        if "exceeded quota" in why:
            return Verdict("QuotaExceeded", f"{late}: {why}")
        return Verdict("AdmissionDenied" if refusals else "Unschedulable", f"{late}: {why}")
    waiting = _waiting(pod)
    if waiting.get("reason") in _IMAGE_REASONS:
        return Verdict("ImagePull", f"{late}: {waiting['reason']}: {waiting.get('message', '')}")
    if waiting:
        return Verdict("AdmissionDenied", f"{late}: {waiting.get('reason', '')}: {waiting.get('message', '')}")
    return Verdict("Unschedulable", f"{late}: {_unscheduled_message(pod)}")


def _unscheduled_message(pod: Document) -> str:
    for condition in pod["status"].get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return str(condition.get("message", ""))
    return "the Pod is pending"


def _times(job: Document, pod: Document | None, now: float) -> _Times:
    created = _seconds(job["metadata"]["creationTimestamp"])
    state = _container_state(pod)
    began = (state.get("running") or state.get("terminated") or {}).get("startedAt")
    node = str((pod or {}).get("spec", {}).get("nodeName") or "")
    if not began:
        return _Times(node, max(0.0, now - created), 0.0, started=False)
    ended = (state.get("terminated") or {}).get("finishedAt")
    ran = (_seconds(ended) if ended else now) - _seconds(began)
    return _Times(node, max(0.0, _seconds(began) - created), max(0.0, ran), started=True)


def _terminated(pod: Document | None) -> Document | None:
    return cast("Document | None", _container_state(pod).get("terminated"))


def _waiting(pod: Document) -> Document:
    return cast("Document", _container_state(pod).get("waiting") or {})


def _container_state(pod: Document | None) -> Document:
    for status in (pod or {}).get("status", {}).get("containerStatuses") or ():
        if status["name"] == CONTAINER:
            return cast("Document", status.get("state") or {})
    return {}


def _gpus(job: Document, resource: str) -> int:
    limits = job["spec"]["template"]["spec"]["containers"][0].get("resources", {}).get("limits") or {}
    return int(limits.get(resource, 0))


def _seconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()
