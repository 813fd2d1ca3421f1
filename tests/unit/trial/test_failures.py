"""What went wrong, as a failure class with one line for people: of exceptions, of ranks, of the whole job."""

import errno
import signal

import pytest
import torch

from tests.unit.trial.requests import make_request
from tunewright.trial_protocol.report import FailureClass
from tunewright_trial.entry import outcome_of
from tunewright_trial.failures import TrialFailure, classify, unsupported
from tunewright_trial.interruptions import interruptible
from tunewright_trial.supervisor import Finding, _death, worst


def wrapped(cause: Exception) -> Exception:
    error = RuntimeError("Failed to run stage backward")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (torch.OutOfMemoryError("HIP out of memory. Tried to allocate 2.00 GiB"), "DeviceOutOfMemory"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), "DeviceOutOfMemory"),
        (wrapped(RuntimeError("CUDA out of memory")), "DeviceOutOfMemory"),
        (MemoryError(), "DeviceOutOfMemory"),
        (torch.distributed.DistBackendError("NCCL error: unhandled system error"), "RcclFailure"),
        (RuntimeError("[gloo/transport/tcp/pair.cc] Connection closed by peer"), "RcclFailure"),
        (RuntimeError("Error while creating shared memory segment /dev/shm/nccl-4 (size 9637888)"), "RcclFailure"),
        (RuntimeError("unable to allocate shared memory(shm) for file </torch_1>: No space left"), "RcclFailure"),
        (OSError(errno.ENOSPC, "No space left on device"), "DeviceMismatch"),
        (PermissionError(errno.EACCES, "Permission denied", "/tmp/x"), "DeviceMismatch"),
        (PermissionError(errno.EACCES, "Permission denied"), "CrashInTraining"),  # a port, for example
        (RuntimeError("The server socket has failed to listen: EADDRINUSE"), "RcclFailure"),
        (NotImplementedError("aten::x is not implemented for Float8"), "Unsupported"),
        (unsupported("precision fp8"), "Unsupported"),
        (TrialFailure("NaNLoss", "the loss of step 3 is nan"), "NaNLoss"),
        (RuntimeError("HIP error: an illegal memory access was encountered"), "CrashInTraining"),
        (ZeroDivisionError("division by zero"), "CrashInTraining"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_exceptions_become_failure_classes(error: Exception, failure: FailureClass) -> None:
    found, message = classify(error)
    assert found == failure
    assert "\n" not in message


def test_the_message_names_the_innermost_cause() -> None:
    assert classify(wrapped(ValueError("width 3")))[1] == "ValueError: width 3"


def test_too_little_shared_memory_comes_with_the_remedy() -> None:
    error = RuntimeError("unable to open shared memory object </torch_1> in read-write mode: No space left on device")
    failure, message = classify(error)
    assert failure == "RcclFailure"
    assert message.startswith("too little shared memory, give /dev/shm more")


def test_the_cause_of_a_failed_collective_is_reported_instead_of_it() -> None:
    findings = [
        Finding(failure="RcclFailure", message="closed by peer"),
        Finding(result="{}"),
        Finding(failure="DeviceOutOfMemory", message="no room"),
    ]
    assert worst(findings) == (2, findings[2])
    assert worst(findings[:2]) == (0, findings[0])
    assert worst(findings[1:2]) is None


def test_a_failed_rank_is_named_by_its_number_in_the_whole_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODE_RANK", "1")
    request = make_request("measure", world=4, request={"nodes": 2, "processes_per_node": 2})
    outcome = outcome_of(request, [Finding(result="{}"), Finding(failure="DeviceOutOfMemory", message="no room")])
    assert outcome["message"] == "rank 3: no room"


@pytest.mark.parametrize(
    ("ended_by", "failure", "words"),
    [
        (-signal.SIGBUS, "RcclFailure", "give /dev/shm more"),
        (-signal.SIGKILL, "HostOOMKilled", "out of memory"),
        (-signal.SIGSEGV, "CrashInTraining", "signal 11"),
        (1, "CrashInTraining", "exit code 1"),
    ],
)
def test_a_rank_that_dies_without_a_word_is_told_by_its_exit_code(
    ended_by: int, failure: FailureClass, words: str
) -> None:
    found, message = _death(ended_by)
    assert found == failure
    assert words in message


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_what_asks_the_program_to_end_becomes_a_report(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    signal.signal(number, signal.default_int_handler)  # the test run may have been started to ignore it
    try:
        with pytest.raises(TrialFailure, match=f"interrupted by {number.name}") as failure, interruptible():
            signal.raise_signal(number)
    finally:
        signal.signal(number, before)
    assert failure.value.failure == "Preempted"


def test_what_the_program_was_started_to_ignore_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interruptible():
            signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)
