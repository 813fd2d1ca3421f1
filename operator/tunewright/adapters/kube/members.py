"""The Pods of one attempt, one a node, and what they say together. Pure; read by `attempts`.

One of them holds the result. Where one fails, the others fail with it: their collectives break, and the Job controller
ends them. Which of them says why is told here.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tunewright.adapters.kube.pod_state import (
    Verdict,
    began_at,
    container_state,
    disrupted_at,
    disruption,
    ended_at,
    node_of,
    outcome_of,
)
from tunewright.trial_protocol.identity import TrialIdentity
from tunewright.trial_protocol.report import FailureClass, TrialReport

Document = dict[str, Any]
Members = Sequence[Document | None]
"""The newest Pod of each index; None where there is none."""

SETTLE_SECONDS = 30.0
"""After the first Pod's end, how long the others may still say what happened to them."""
_INDEX = "batch.kubernetes.io/job-completion-index"
_MOST_NAMED = 6


@dataclass(frozen=True)
class Outcome:
    """How an attempt ended: a report, or a verdict without one; which node it came from; all in words.

    `others_run`: a failure was not waited for any longer, and Pods still hold their nodes.
    """

    report: TrialReport | None = None
    verdict: Verdict | None = None
    node: str = ""
    message: str = ""
    others_run: bool = False

    @property
    def failure(self) -> FailureClass | None:
        """The failure class, None for a result."""
        if self.verdict is not None:
            return self.verdict.failure
        return self.report.failure if self.report is not None else None


@dataclass(frozen=True)
class _End:
    """How one Pod ended."""

    index: int
    pod: Document
    outcome: Outcome


def members_of(job: Document, pods: Sequence[Document]) -> Members:
    """Return the newest Pod of each index; a Job that is not indexed has one."""
    newest: dict[int, Document] = {}
    for pod in sorted(pods, key=lambda item: str(item["metadata"]["creationTimestamp"])):
        index = str((pod["metadata"].get("annotations") or {}).get(_INDEX, "0"))
        newest[int(index) if index.isdecimal() else 0] = pod
    return [newest.get(index) for index in range(job["spec"].get("completions") or 1)]


def settled(members: Members, identity: TrialIdentity, now: float, *, is_job_over: bool) -> Outcome | None:
    """Return how the attempt ended; None while Pods may still say more, and where none has ended."""
    ends = [end for index, pod in enumerate(members) if (end := _end(index, pod, identity)) is not None]
    if not ends:
        return None
    silent = [pod for pod in members if pod is not None and all(pod is not end.pod for end in ends)]
    missing = any(pod is None for pod in members) and not is_job_over
    first = min(ended_at(end.pod) or disrupted_at(end.pod) or now for end in ends)
    if (silent or missing) and now - first <= SETTLE_SECONDS:
        return None
    found = next((end for end in ends if end.outcome.failure is None), None)
    if found is not None:
        return found.outcome
    return replace(_explained(ends, len(members)), others_run=bool(silent))


def gpu_pod_seconds(members: Members, now: float) -> float:
    """Return how long Pods held their nodes, summed. One that is gone without a trace ran as long as the longest."""
    spans = [
        max(0.0, (ended_at(pod) or now) - began)
        for pod in members
        if pod is not None and (began := began_at(pod)) is not None
    ]
    gone = sum(pod is None for pod in members)
    return sum(spans) + (gone * max(spans) if spans else 0.0)


def _end(index: int, pod: Document | None, identity: TrialIdentity) -> _End | None:
    if pod is None:
        return None
    report, verdict = outcome_of(pod, identity)
    if report is None and verdict is None:
        return None
    message = verdict.message if verdict is not None else report.message if report is not None else ""
    return _End(index, pod, Outcome(report, verdict, node_of(pod), message))


def _explained(ends: Sequence[_End], nodes: int) -> Outcome:
    """Return the end that explains the others, with its Pod named where there are several."""
    cause, *others = sorted(ends, key=lambda end: (_is_consequence(end), end.index))
    if nodes == 1:
        return cause.outcome
    told = [f"node {end.index} {end.outcome.failure}" for end in others[:_MOST_NAMED]]
    more = f" and {len(others) - _MOST_NAMED} more" if len(others) > _MOST_NAMED else ""
    on = f" on {cause.outcome.node}" if cause.outcome.node else ""
    where = f"node {cause.index} (Pod {cause.pod['metadata']['name']}{on})"
    also = f"; also {', '.join(told)}{more}" if told else ""
    return replace(cause.outcome, message=f"{where}: {cause.outcome.message}{also}")


def _is_consequence(end: _End) -> int:
    """Order ends by how little they explain: broken collectives, then Pods ended with their Job, then silence."""
    if disruption(end.pod) is not None:
        return 0
    if end.outcome.failure == "RcclFailure":
        return 1
    if end.outcome.failure == "Preempted":
        return 2
    exit_code = (container_state(end.pod).get("terminated") or {}).get("exitCode")
    return 3 if end.outcome.failure == "ResultMissing" and exit_code == 0 else 0
