from typing import Any

import pytest

from tests.support.kube_documents import a_job, a_pod, an_identity
from tunewright.adapters.kube import labels
from tunewright.adapters.kube.attempts import AttemptView, identity_of, verdict_text, view_attempt
from tunewright.adapters.kube.spec.trial import PodSpec
from tunewright.trial_protocol.codec import encode_report
from tunewright.trial_protocol.report import Profile, TrialReport

START = 1_796_014_800.0  # 2026-11-30T05:00:00Z, when the Job was created
POD = PodSpec.parse({"startDeadlineSeconds": 100, "runDeadlineSeconds": 200})


def view(
    pod: dict[str, Any] | None = None, *, after: float = 10, refusals: tuple[str, ...] = (), job: Any = None
) -> AttemptView:
    return view_attempt(job or a_job(), [pod] if pod else [], refusals, an_identity(), POD, START + after)


def terminated(message: str = "", *, code: int = 0, reason: str = "Completed") -> dict[str, Any]:
    return {
        "terminated": {
            "exitCode": code,
            "reason": reason,
            "message": message,
            "startedAt": "2026-11-30T05:00:05Z",
            "finishedAt": "2026-11-30T05:00:35Z",
        }
    }


def report(**identity: Any) -> str:
    return encode_report(TrialReport(identity=an_identity(**identity), profile=Profile()))


RUNNING = {"running": {"startedAt": "2026-11-30T05:00:05Z"}}
DISRUPTED = [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": "preempted"}]
TAINTED = [{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager", "message": "tainted"}]


def test_a_job_says_whose_attempt_it_is() -> None:
    assert identity_of(a_job(), an_identity().run_uid) == an_identity()


def test_a_valid_report_is_a_result_with_its_times() -> None:
    seen = view(a_pod(terminated(report()), phase="Succeeded", node="gpu-1")).observation
    assert seen.report == TrialReport(identity=an_identity(), profile=Profile())
    assert (seen.state, seen.failure, seen.node) == ("finished", None, "gpu-1")
    assert (seen.queued_seconds, seen.gpu_seconds) == (5.0, 30.0 * 8)


@pytest.mark.parametrize(
    ("pod", "failure", "said"),
    [
        (a_pod(terminated("")), "ResultMissing", "exit code 0"),
        (a_pod(terminated("", code=139, reason="Error")), "ResultMissing", "exit code 139"),
        (a_pod(terminated(report()[:40])), "ResultInvalid", "truncated"),
        (a_pod(terminated(report(trial="t0013"))), "ResultInvalid", "'t0013', expected 't0012'"),
        (a_pod(terminated(report(), reason="OOMKilled")), "HostOOMKilled", "memory limit"),
        (a_pod(terminated("", code=143), conditions=DISRUPTED), "Preempted", "PreemptionByScheduler"),
        (a_pod(terminated("", code=143), conditions=TAINTED), "NodeLost", "DeletionByTaintManager"),
        (a_pod(RUNNING, conditions=TAINTED), "NodeLost", "tainted"),
        (a_pod(phase="Failed", reason="UnexpectedAdmissionError", message="no device"), "NodeLost", "no device"),
    ],
    ids=[
        "no-report",
        "crash-without-report",
        "truncated",
        "foreign",
        "oom-killed-with-exit-0",
        "preempted",
        "node-lost",
        "node-lost-while-running",
        "refused-by-kubelet",
    ],
)
def test_an_ended_attempt_has_its_failure_class(pod: dict[str, Any], failure: str, said: str) -> None:
    seen = view(pod)
    assert (seen.observation.state, seen.observation.failure) == ("finished", failure)
    assert said in seen.observation.message
    assert seen.to_end is None


def pending(reason: str, message: str = "") -> dict[str, Any]:
    return {"waiting": {"reason": reason, "message": message}}


UNSCHEDULED = [{"type": "PodScheduled", "status": "False", "message": "0/1 nodes: 1 Insufficient amd.com/gpu"}]


@pytest.mark.parametrize(
    ("pod", "refusals", "failure", "said"),
    [
        (a_pod(pending("ImagePullBackOff", "not found")), (), "ImagePull", "ImagePullBackOff: not found"),
        (a_pod(pending("CreateContainerConfigError", "secret")), (), "AdmissionDenied", "secret"),
        (a_pod(conditions=UNSCHEDULED), (), "Unschedulable", "Insufficient amd.com/gpu"),
        (None, ("pods is forbidden: exceeded quota: gpus",), "QuotaExceeded", "exceeded quota"),
        (None, ('violates PodSecurity "restricted"',), "AdmissionDenied", "PodSecurity"),
        (None, (), "Unschedulable", "no Pod was created"),
    ],
    ids=["image", "config", "unschedulable", "quota", "admission", "nothing"],
)
def test_what_never_starts_is_ended_with_its_cause(
    pod: dict[str, Any] | None, refusals: tuple[str, ...], failure: str, said: str
) -> None:
    assert view(pod, after=99, refusals=refusals).observation.state == "queued"
    late = view(pod, after=101, refusals=refusals)
    assert late.to_end is not None
    assert late.to_end.failure == failure
    assert said in late.observation.message
    assert "startDeadlineSeconds 100" in late.observation.message


def test_what_runs_too_long_is_ended_after_the_trials_own_watchdog() -> None:
    assert view(a_pod(RUNNING), after=5 + 260).observation.state == "running"
    late = view(a_pod(RUNNING), after=5 + 261)
    assert late.to_end is not None
    assert late.observation.failure == "Timeout"
    assert late.observation.gpu_seconds == 261 * 8


def test_a_pod_that_terminates_for_ever_is_lost() -> None:
    pod = a_pod(RUNNING)
    pod["metadata"]["deletionTimestamp"] = "2026-11-30T05:00:10Z"
    assert view(pod, after=100).to_end is None
    late = view(pod, after=161)
    assert late.to_end is not None
    assert late.to_end.failure == "NodeLost"


def test_a_pod_that_was_told_to_end_says_nothing_about_its_trial() -> None:
    pod = a_pod(terminated("", code=143, reason="Error"))
    pod["metadata"]["deletionTimestamp"] = "2026-11-30T05:00:10Z"
    seen = view(pod, after=20)
    assert (seen.observation.state, seen.to_end) == ("running", None)


def test_a_trial_that_its_queue_interrupts_says_so_and_queues_again() -> None:
    """Its own report of the interruption is no end: the queue lets the same Job run again."""
    interrupted = TrialReport(identity=an_identity(), failure="Preempted", message="interrupted by SIGTERM")
    pod = a_pod(terminated(encode_report(interrupted), code=1, reason="Error"))
    pod["metadata"]["deletionTimestamp"] = "2026-11-30T05:00:10Z"
    assert view(pod).observation.failure == "Preempted", "without a queue nobody runs it again"
    job = a_job(queue="tuning")
    assert view(pod, job=job).observation.state == "queued"
    job["spec"]["suspend"] = False
    assert view(pod, job=job).observation.state == "running", "let run again before its old Pod is gone"
    failed = a_job([{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}], queue="tuning")
    seen = view(pod, job=failed).observation
    assert (seen.state, seen.failure) == ("finished", "Preempted")


def test_the_time_after_a_containers_end_is_no_run_time() -> None:
    """A Pod that its queue evicted may stay for a while when the node is slow to confirm its end."""
    pod = a_pod(terminated("", code=143, reason="Error"))
    pod["metadata"]["deletionTimestamp"] = "2026-11-30T05:06:40Z"
    seen = view(pod, after=420)
    assert (seen.observation.state, seen.to_end) == ("running", None)
    assert seen.observation.gpu_seconds == 30 * 8


@pytest.mark.parametrize(
    ("condition", "failure"),
    [
        ({"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}, "NodeLost"),
        ({"type": "Failed", "status": "True", "reason": "DeadlineExceeded"}, "ResultMissing"),
        ({"type": "Complete", "status": "True"}, "ResultMissing"),
    ],
)
def test_a_job_that_ended_without_its_pod_has_no_result(condition: dict[str, str], failure: str) -> None:
    assert view(None, job=a_job([condition])).observation.failure == failure


def test_a_verdict_survives_on_the_job() -> None:
    late = view(a_pod(RUNNING, node="gpu-1"), after=1000)
    job = a_job(annotations={labels.VERDICT: verdict_text(late.observation)})
    again = view(None, job=job, after=5000)
    assert again.observation == late.observation
    assert again.to_end is None


def test_time_in_a_queue_is_not_time_to_start() -> None:
    """A Job that a queue holds back waits as long as the queue wants; from its admission on the deadline counts."""
    waiting = a_job(queue="tuning")
    seen = view(job=waiting, after=10_000)
    assert (seen.observation.state, seen.to_end) == ("queued", None)
    assert seen.observation.queued_seconds == 10_000
    assert seen.waits_for is not None
    assert "the queue tuning has not admitted it" in seen.waits_for.message
    admitted = a_job(queue="tuning")
    admitted["spec"]["suspend"] = False
    assert view(job=admitted, after=10_000).to_end is None, "the Job controller has not looked at it yet"
    admitted["status"]["startTime"] = "2026-11-30T07:00:00Z"
    assert view(job=admitted, after=7200 + 99).to_end is None
    assert view(job=admitted, after=7200 + 101).to_end is not None


def test_a_job_that_somebody_suspends_has_its_start_deadline() -> None:
    job = a_job()
    job["spec"]["suspend"] = True
    assert view(job=job, after=101).to_end is not None


def test_a_job_that_its_queue_suspends_and_that_fails_by_it_was_preempted() -> None:
    job = a_job([{"type": "FailureTarget", "status": "True", "reason": "BackoffLimitExceeded"}], queue="tuning")
    seen = view(job=job).observation
    assert (seen.failure, seen.message) == ("Preempted", "the queue tuning took its room back")
