"""What the status of one trial Pod says, as the API server returns it. Pure; read by `attempts` and `members`."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from tunewright.adapters.kube.manifests import CONTAINER
from tunewright.errors import ProtocolError
from tunewright.trial_protocol.codec import decode_report
from tunewright.trial_protocol.identity import TrialIdentity
from tunewright.trial_protocol.report import FailureClass, TrialReport

Document = dict[str, Any]

IMAGE_REASONS = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
_PREEMPTION_REASONS = frozenset({"PreemptionByScheduler", "EvictionByEvictionAPI"})


@dataclass(frozen=True)
class Verdict:
    """How an attempt ended without a report."""

    failure: FailureClass
    message: str


def outcome_of(pod: Document, identity: TrialIdentity) -> tuple[TrialReport | None, Verdict | None]:
    """Return the report of a Pod, or why there will be none, or neither while it is alive."""
    terminated = container_state(pod).get("terminated")
    if terminated is not None:
        return _from_container(pod, terminated, identity)
    lost = disruption(pod)
    if lost is not None:
        return None, lost
    if pod["status"].get("phase") == "Failed":
        why = pod["status"].get("message") or pod["status"].get("reason") or "no reason given"
        return None, Verdict("NodeLost", f"the Pod failed before its container ran: {why}")
    return None, None


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
    lost = disruption(pod)
    if lost is not None:
        return None, lost
    if pod["metadata"].get("deletionTimestamp"):
        return None, None  # it was told to end: what its Job does next tells what that was, a queue may start it again
    code = terminated.get("exitCode")
    return None, Verdict("ResultMissing", f"the trial ended with exit code {code} and left no report")


def disruption(pod: Document) -> Verdict | None:
    """Return who took the Pod away, where the cluster did."""
    for condition in pod["status"].get("conditions") or ():
        if condition["type"] == "DisruptionTarget" and condition["status"] == "True":
            reason = condition.get("reason", "")
            failure: FailureClass = "Preempted" if reason in _PREEMPTION_REASONS else "NodeLost"
            return Verdict(failure, f"{reason}: {condition.get('message', '')}")
    return None


def why_waiting(pod: Document) -> Verdict:
    """Return what keeps a Pod from running."""
    waiting = container_state(pod).get("waiting") or {}
    if waiting.get("reason") in IMAGE_REASONS:
        return Verdict("ImagePull", f"{waiting['reason']}: {waiting.get('message', '')}")
    if waiting:
        return Verdict("AdmissionDenied", f"{waiting.get('reason', '')}: {waiting.get('message', '')}")
    return Verdict("Unschedulable", unscheduled(pod) or "the Pod is pending")


def unscheduled(pod: Document) -> str:
    """Return why the scheduler found no node; empty where it did or has not looked."""
    for condition in pod["status"].get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return str(condition.get("message") or "the scheduler found no node")
    return ""


def began_at(pod: Document) -> float | None:
    """Return when the container began, in seconds since the epoch; None before."""
    state = container_state(pod)
    began = (state.get("running") or state.get("terminated") or {}).get("startedAt")
    return seconds(began) if began else None


def ended_at(pod: Document) -> float | None:
    """Return when the container ended; None before."""
    ended = (container_state(pod).get("terminated") or {}).get("finishedAt")
    return seconds(ended) if ended else None


def disrupted_at(pod: Document) -> float | None:
    """Return when the cluster said that it takes the Pod away; None where it has not. The kubelet may be gone then."""
    for condition in pod["status"].get("conditions") or ():
        if condition["type"] == "DisruptionTarget" and condition["status"] == "True":
            since = condition.get("lastTransitionTime")
            return seconds(since) if since else None
    return None


def has_started(pod: Document) -> bool:
    """Tell whether the container began and, if there is a startup probe, whether that said so."""
    status = _container_status(pod)
    return began_at(pod) is not None and ("running" not in status["state"] or status.get("started") is not False)


def node_of(pod: Document | None) -> str:
    """Return the node that a Pod is bound to; empty before."""
    return str((pod or {}).get("spec", {}).get("nodeName") or "")


def container_state(pod: Document) -> Document:
    """Return the state of the trial's container; empty before the kubelet saw it."""
    return cast("Document", _container_status(pod).get("state") or {})


def _container_status(pod: Document) -> Document:
    statuses: Sequence[Document] = pod.get("status", {}).get("containerStatuses") or ()
    return next((status for status in statuses if status["name"] == CONTAINER), {})


def seconds(timestamp: str) -> float:
    """Return a timestamp of the API in seconds since the epoch."""
    return datetime.fromisoformat(timestamp).timestamp()
