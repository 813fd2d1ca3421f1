from typing import Any

import pytest

from tests.support.kube_documents import a_job, a_pod, an_identity
from tunewright.adapters.kube.attempts import AttemptView, view_attempt
from tunewright.adapters.kube.inventory import Capacity
from tunewright.adapters.kube.spec.trial import PodSpec
from tunewright.adapters.kube.waiting import capacity_by_attempts

START = 1_796_014_800.0  # when the Job was created
QUOTA = "pods is forbidden: exceeded quota: gpus"
NO_NODE: dict[str, Any] = {
    "conditions": [{"type": "PodScheduled", "status": "False", "message": "0/1 nodes: Insufficient amd.com/gpu"}]
}
RUNNING = {"running": {"startedAt": "2026-11-30T05:00:05Z"}}
FULL = {"conditions": [{"type": "CapacityAvailable", "status": "False"}]}


def view(
    pod: dict[str, object] | None = None, refusals: tuple[str, ...] = (), after: float = 20, job: Any = None
) -> AttemptView:
    return view_attempt(job or a_job(), [pod] if pod else [], refusals, an_identity(), PodSpec(), START + after)


@pytest.mark.parametrize(
    ("seen", "reason", "said"),
    [
        (view(refusals=(QUOTA,)), "QuotaExceeded", "t0012 waits: pods is forbidden: exceeded quota"),
        (view(a_pod(**NO_NODE)), "NotEnoughNodes", "Insufficient amd.com/gpu"),
        (view(refusals=("violates PodSecurity",)), "AdmissionDenied", "violates PodSecurity"),
        (view(job=a_job(queue="tuning")), "Queued", "t0012 waits: the queue tuning has not admitted it"),
    ],
    ids=["quota", "unschedulable", "admission", "queue"],
)
def test_what_keeps_a_trial_from_starting_is_a_lack_of_capacity(seen: AttemptView, reason: str, said: str) -> None:
    capacity = capacity_by_attempts([seen], {})
    assert capacity is not None
    assert (capacity.available, capacity.reason) == (False, reason)
    assert said in capacity.message


def test_a_moment_of_waiting_is_not_worth_a_word() -> None:
    assert capacity_by_attempts([view(a_pod(**NO_NODE), after=5)], {}) is None
    assert capacity_by_attempts([view(a_pod())], {}) is None


def test_a_trial_that_runs_after_all_takes_it_back() -> None:
    running = view(a_pod(RUNNING, node="gpu-1"))
    assert capacity_by_attempts([running], FULL) == Capacity(True, "NodesFound", "t0012 runs on gpu-1")
    assert capacity_by_attempts([running], {}) is None
