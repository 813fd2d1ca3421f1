"""Attempts of several Pods: when they start, who has the result, and whose failure explains the others."""

from typing import Any

import pytest

from tests.support.kube_documents import a_job, a_pod, an_identity
from tunewright.adapters.kube.attempts import AttemptView, view_attempt
from tunewright.adapters.kube.members import SETTLE_SECONDS
from tunewright.adapters.kube.spec.trial import PodSpec
from tunewright.trial_protocol.codec import encode_report
from tunewright.trial_protocol.report import FailureClass, Measured, TrialReport

START = 1_796_014_800.0  # 2026-11-30T05:00:00Z, when the Job was created
POD = PodSpec.parse({"startDeadlineSeconds": 100, "runDeadlineSeconds": 200})
MEASURED = Measured(step_seconds=(1.0,), tokens_per_step=1, world_size=16, nodes=2, first_loss=1, last_loss=1)
IDENTITY = an_identity(kind="measure")
FAILING = [{"type": "FailureTarget", "status": "True", "reason": "BackoffLimitExceeded"}]
DISRUPTED = [{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager", "message": "tainted"}]
UNSCHEDULED = [{"type": "PodScheduled", "status": "False", "message": "0/2 nodes: 1 Insufficient amd.com/gpu"}]
Pod = dict[str, Any]


def view(*pods: Pod, after: float = 60, job: Any = None, refusals: tuple[str, ...] = ()) -> AttemptView:
    return view_attempt(job or a_job(nodes=2), list(pods), refusals, IDENTITY, POD, START + after)


def running(index: int, *, since: int = 5, met: bool = True, **status: Any) -> Pod:
    state = {"running": {"startedAt": f"2026-11-30T05:00:{since:02}Z"}}
    return a_pod(state, index=index, started=met, node=f"gpu-{index}", phase="Running", **status)


def ended(index: int, message: str = "", *, code: int = 0, at: int = 45, **status: Any) -> Pod:
    times = {"startedAt": "2026-11-30T05:00:05Z", "finishedAt": f"2026-11-30T05:00:{at:02}Z"}
    reason = "OOMKilled" if code == 137 else "Error" if code else "Completed"
    state = {"terminated": {"exitCode": code, "reason": reason, "message": message, **times}}
    return a_pod(state, index=index, node=f"gpu-{index}", phase="Failed" if code else "Succeeded", **status)


def result() -> str:
    return encode_report(TrialReport(identity=IDENTITY, measured=MEASURED))


def failed(index: int, failure: FailureClass, message: str = "rank 9: why", **status: Any) -> Pod:
    text = encode_report(TrialReport(identity=IDENTITY, failure=failure, message=message))
    return ended(index, text, code=3, **status)


def test_the_result_is_the_first_pods_and_the_time_that_of_all() -> None:
    seen = view(ended(0, result()), ended(1, at=46)).observation
    assert seen.report is not None and seen.report.measured == MEASURED
    assert (seen.state, seen.failure, seen.node, seen.message) == ("finished", None, "gpu-0", "")
    assert seen.gpu_seconds == (40 + 41) * 8


def test_where_another_pod_has_the_result_it_counts_as_well() -> None:
    seen = view(ended(0), ended(1, result())).observation
    assert seen.report is not None and seen.report.measured == MEASURED


def test_nobody_has_a_result() -> None:
    seen = view(ended(0), ended(1)).observation
    assert (seen.failure, seen.report) == ("ResultMissing", None)
    assert seen.message.startswith("node 0 (Pod pod-0 on gpu-0): ")


@pytest.mark.parametrize(
    "pods",
    [
        (running(0),),
        (running(0), running(1, met=False)),
        (running(0, met=False), running(1)),
        (running(0), a_pod(index=1, conditions=UNSCHEDULED)),
    ],
    ids=["no-pod", "not-met", "first-not-met", "pending"],
)
def test_nothing_runs_before_all_have_met(pods: tuple[Pod, ...]) -> None:
    seen = view(*pods).observation
    assert seen.state == "queued"
    assert seen.gpu_seconds >= 55 * 8, "the Pods that wait hold their nodes"


def test_an_attempt_runs_from_its_slowest_pods_start() -> None:
    pods = running(0, since=5), running(1, since=35)
    seen = view(*pods).observation
    assert (seen.state, seen.queued_seconds) == ("running", 35)
    assert seen.gpu_seconds == (55 + 25) * 8
    assert view(*pods, after=35 + 260).to_end is None
    late = view(*pods, after=35 + 261)
    assert late.to_end is not None
    assert late.to_end.failure == "Timeout"


@pytest.mark.parametrize(
    ("pods", "refusals", "failure", "said"),
    [
        ((running(0), a_pod(index=1, conditions=UNSCHEDULED)), (), "Unschedulable", "node 1: 0/2 nodes"),
        ((running(0), a_pod({"waiting": {"reason": "ErrImagePull"}}, index=1)), (), "ImagePull", "node 1: ErrImage"),
        ((running(0),), ("pods is forbidden: exceeded quota: gpus",), "QuotaExceeded", "exceeded quota"),
        ((running(1),), (), "Unschedulable", "node 0: no Pod was created"),
        ((running(0, met=False), running(1, met=False)), (), "RcclFailure", "do not meet"),
    ],
    ids=["unschedulable", "image", "quota", "missing", "no-network"],
)
def test_what_does_not_start_as_a_whole_is_ended_with_the_pod_that_is_missing(
    pods: tuple[Pod, ...], refusals: tuple[str, ...], failure: str, said: str
) -> None:
    assert view(*pods, refusals=refusals, after=99).to_end is None
    late = view(*pods, refusals=refusals, after=101)
    assert late.to_end is not None
    assert late.to_end.failure == failure
    assert "startDeadlineSeconds 100" in late.to_end.message
    assert said in late.to_end.message


BROKEN = failed(0, "RcclFailure", "rank 0: connection reset")


@pytest.mark.parametrize(
    ("pods", "failure", "said"),
    [
        ((BROKEN, failed(1, "DeviceOutOfMemory")), "DeviceOutOfMemory", "node 1 (Pod pod-1 on gpu-1): rank 9: why"),
        ((BROKEN, ended(1, code=137)), "HostOOMKilled", "node 1 (Pod pod-1 on gpu-1): the kernel killed"),
        ((BROKEN, ended(1, code=139)), "ResultMissing", "node 1 (Pod pod-1 on gpu-1): the trial ended with exit code"),
        ((failed(0, "Preempted"), failed(1, "RcclFailure")), "RcclFailure", "node 1"),
        ((ended(0), failed(1, "CrashInTraining")), "CrashInTraining", "node 1"),
        ((BROKEN, ended(1, code=143, conditions=DISRUPTED)), "NodeLost", "tainted"),
        ((failed(0, "Timeout"), failed(1, "Timeout")), "Timeout", "node 0"),
    ],
    ids=["device-memory", "host-memory", "crash", "ended-with-its-job", "silent-peer", "node-lost", "all-alike"],
)
def test_the_failure_that_explains_the_others_is_told_with_its_pod(
    pods: tuple[Pod, ...], failure: str, said: str
) -> None:
    seen = view(*pods).observation
    assert (seen.state, seen.failure) == ("finished", failure)
    assert said in seen.message
    assert "; also node " in seen.message
    assert seen.node == f"gpu-{seen.message[5]}"


def test_others_have_a_while_to_say_what_happened_to_them() -> None:
    pods = BROKEN, running(1)
    assert view(*pods, after=46 + SETTLE_SECONDS - 2).observation.state == "running"
    assert view(*pods, after=46 + SETTLE_SECONDS).observation.failure == "RcclFailure"


def test_a_node_that_is_gone_is_not_waited_for_longer() -> None:
    """Its kubelet never says that the container ended, and the others hang in a collective."""
    lost = [DISRUPTED[0] | {"lastTransitionTime": "2026-11-30T05:00:50Z"}]
    pods = running(0), running(1, conditions=lost)
    assert view(*pods, after=50 + SETTLE_SECONDS).observation.state == "running"
    late = view(*pods, after=51 + SETTLE_SECONDS)
    assert (late.observation.failure, late.observation.node) == ("NodeLost", "gpu-1")
    assert late.to_end is not None, "or the others would hold their nodes until their own watchdog"
    assert late.to_end.failure == "NodeLost"


def test_pods_that_are_gone_with_their_job_are_not_waited_for() -> None:
    job = a_job(FAILING, nodes=2)
    seen = view(BROKEN, job=job, after=46).observation
    assert (seen.failure, seen.message) == (
        "RcclFailure",
        "node 0 (Pod pod-0 on gpu-0): rank 0: connection reset",
    )
    assert seen.gpu_seconds == 2 * 40 * 8, "the Pod that is gone held its node as long"
    assert view(job=job).observation.failure == "NodeLost"


def test_a_pod_that_was_given_a_foreign_index_counts_as_the_first() -> None:
    pod = ended(0, result())
    pod["metadata"]["annotations"] = {"batch.kubernetes.io/job-completion-index": "one"}
    assert view(pod, ended(1)).observation.report is not None
