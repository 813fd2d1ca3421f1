"""Trials as local processes, with small stand-in programs, and once with the real one."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.unit.trial.requests import make_request
from tunewright.adapters.trials.local import LocalTrials, environment_of, on_one_node
from tunewright.adapters.trials.probe import FIELDS, probe_cpu
from tunewright.domain.hardware import Accelerator
from tunewright.errors import TuningError
from tunewright.ports import TrialObservation, Trials
from tunewright.trial_protocol.codec import encode_report
from tunewright.trial_protocol.report import FailureClass, TrialReport
from tunewright.trial_protocol.request import ExpectedDevice, TrialRequest

ANSWER = """
import sys, pathlib
from tunewright.trial_protocol.codec import decode_request, encode_report
from tunewright.trial_protocol.report import TrialReport
request = decode_request(pathlib.Path("request.json").read_text())
with pathlib.Path("starts.txt").open("a") as starts:
    starts.write("started\\n")
report = TrialReport(identity=request.identity, failure="Unsupported", message="stand-in", wall_seconds=2.5)
"""
WRITE = 'pathlib.Path("report.json").write_text(encode_report(report)); sys.exit(3)'
FOREIGN = """
report = report.model_copy(update={"identity": report.identity.model_copy(update={"attempt": 2})})
"""
HANG = """
import sys
sys.stdin.read()
"""
MakeTrials = Callable[[str], LocalTrials]


@pytest.fixture
async def make_trials(tmp_path: Path) -> AsyncIterator[MakeTrials]:
    made: list[LocalTrials] = []

    def make(program: str) -> LocalTrials:
        script = tmp_path / "program.py"
        script.write_text(program)
        made.append(LocalTrials(tmp_path / "trials", program=[str(script)]))
        return made[-1]

    yield make
    for trials in made:
        await trials.close()


async def finished(trials: Trials) -> list[TrialObservation]:
    while True:
        observations = list(await trials.observe())
        if all(one.state == "finished" for one in observations):
            return observations
        await asyncio.sleep(0.01)


async def test_a_report_is_returned_with_its_failure_and_cost(make_trials: MakeTrials) -> None:
    trials = make_trials(ANSWER + WRITE)
    await trials.start(make_request(world=4))
    [one] = await finished(trials)
    assert (one.trial, one.attempt, one.failure, one.message) == ("t0001", 1, "Unsupported", "stand-in")
    assert one.report is not None
    assert one.gpu_seconds == 4 * 2.5


async def test_starting_again_changes_nothing(make_trials: MakeTrials, tmp_path: Path) -> None:
    trials = make_trials(ANSWER + WRITE)
    for _ in range(3):
        await trials.start(make_request())
    await finished(trials)
    await trials.start(make_request())
    assert (tmp_path / "trials" / "t0001-1" / "starts.txt").read_text() == "started\n"


async def test_a_report_that_an_earlier_process_left_counts(make_trials: MakeTrials, tmp_path: Path) -> None:
    first = make_trials(ANSWER + WRITE)
    await first.start(make_request())
    await finished(first)
    second = make_trials(ANSWER + WRITE)
    await second.start(make_request())
    [one] = await second.observe()
    assert (one.state, one.failure) == ("finished", "Unsupported")
    assert (tmp_path / "trials" / "t0001-1" / "starts.txt").read_text() == "started\n"


@pytest.mark.parametrize(
    ("left", "failure"),
    [("Cancelled", "Interrupted"), ("Preempted", "Interrupted"), ("Unsupported", "Unsupported"), (None, "Interrupted")],
)
async def test_an_attempt_of_a_process_that_died_is_taken_over_or_interrupted_but_never_run_again(
    make_trials: MakeTrials, tmp_path: Path, left: FailureClass | None, failure: FailureClass
) -> None:
    trials = make_trials(ANSWER + WRITE)
    request = make_request()
    folder = tmp_path / "trials" / f"{request.identity.trial}-{request.identity.attempt}"
    folder.mkdir(parents=True)
    if left is not None:
        (folder / "report.json").write_text(encode_report(TrialReport(identity=request.identity, failure=left)))
    await trials.adopt(request)
    (seen,) = await trials.observe()
    assert (seen.state, seen.failure) == ("finished", failure)
    assert not (folder / "starts.txt").exists()


@pytest.mark.parametrize("recorded", [True, False], ids=["recorded as started", "died before that"])
async def test_a_trial_that_its_driver_took_along_is_interrupted_and_its_time_is_told(
    make_trials: MakeTrials, tmp_path: Path, recorded: bool
) -> None:
    request, folder = make_request(world=4), tmp_path / "trials" / "t0001-1"
    first = make_trials(HANG)
    await first.start(request)
    began = (folder / "request.json").stat().st_mtime
    os.utime(folder / "request.json", (began - 10, began - 10))
    await first.close()
    second = make_trials(ANSWER + WRITE)
    await (second.adopt(request) if recorded else second.start(request))
    (seen,) = await second.observe()
    assert (seen.state, seen.failure, seen.report) == ("finished", "Interrupted", None)
    assert 4 * 10 <= seen.gpu_seconds < 4 * 60
    assert not (folder / "starts.txt").exists()


async def test_the_report_of_an_interrupted_trial_tells_its_time(make_trials: MakeTrials, tmp_path: Path) -> None:
    trials, request = make_trials(ANSWER + WRITE), make_request(world=2)
    folder = tmp_path / "trials" / "t0001-1"
    folder.mkdir(parents=True)
    left = TrialReport(identity=request.identity, failure="Cancelled", wall_seconds=20.0)
    (folder / "report.json").write_text(encode_report(left))
    await trials.adopt(request)
    (seen,) = await trials.observe()
    assert (seen.failure, round(seen.gpu_seconds)) == ("Interrupted", 40)


async def test_a_report_of_another_run_in_the_same_folder_does_not_count(make_trials: MakeTrials) -> None:
    first = make_trials(ANSWER + WRITE)
    await first.start(make_request())
    await finished(first)
    request = make_request()
    identity = request.identity.model_copy(update={"run_uid": "run-2"})
    second = make_trials(ANSWER + WRITE)
    await second.start(request.model_copy(update={"identity": identity}))
    [one] = await finished(second)
    assert one.report is not None
    assert one.report.identity.run_uid == "run-2"


@pytest.mark.parametrize(
    ("program", "failure", "words"),
    [
        ("", "ResultMissing", "exit code 0"),
        ("raise SystemExit('no torch here')", "ResultMissing", "no torch here"),
        ("import os; os.kill(os.getpid(), 9)", "HostOOMKilled", "-9"),
        ("open('report.json', 'w').write('{\"protocolVersion\":1,')", "ResultInvalid", "truncated"),
        ("open('report.json', 'wb').write(b'\\xff\\xfe')", "ResultMissing", "exit code 0"),
        ("open('report.json', 'w').write('[' * 2999)", "ResultInvalid", "not JSON"),
        (ANSWER + FOREIGN + WRITE, "ResultInvalid", "attempt is 2, expected 1"),
    ],
    ids=["nothing", "a-message", "killed", "truncated", "binary", "deep", "foreign"],
)
async def test_without_a_valid_report_nothing_is_believed(
    program: str, failure: FailureClass, words: str, make_trials: MakeTrials
) -> None:
    trials = make_trials(program)
    await trials.start(make_request())
    [one] = await finished(trials)
    assert (one.report, one.failure) == (None, failure)
    assert words in one.message


async def test_stopping_ends_one_attempt_and_keeps_the_others(make_trials: MakeTrials) -> None:
    trials = make_trials(HANG)
    other = make_request()
    other = other.model_copy(update={"identity": other.identity.model_copy(update={"trial": "t0002"})})
    await trials.start(make_request())
    await trials.start(other)
    await trials.stop("t0001", 1)
    await trials.stop("t0001", 1)
    await trials.stop("t0009", 1)
    first, second = await trials.observe()
    assert (first.state, first.failure) == ("finished", "Cancelled")
    assert (second.state, second.failure, second.message) == ("running", None, "")


async def test_a_folder_that_cannot_be_made_is_a_tuning_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TuningError, match="t0001 cannot start"):
        await LocalTrials(tmp_path / "file").start(make_request())


def test_several_nodes_become_processes_of_one() -> None:
    request = on_one_node(make_request(request={"nodes": 2, "processes_per_node": 4}))
    assert (request.nodes, request.processes_per_node) == (1, 8)


def test_a_cpu_trial_sees_no_accelerator_and_no_leftover_variable() -> None:
    environment = environment_of(make_request(), {"PATH": "/bin", "TUNEWRIGHT_REQUEST_JSON": "{}"})
    assert environment["PATH"] == "/bin"
    assert environment["HIP_VISIBLE_DEVICES"] == environment["CUDA_VISIBLE_DEVICES"] == ""
    assert "TUNEWRIGHT_REQUEST_JSON" not in environment
    on_gpu = make_request(request={"device": ExpectedDevice(preset="mi355x", vendor="amd", count=1)})
    assert "HIP_VISIBLE_DEVICES" not in environment_of(on_gpu, {})


async def real_outcome(folder: Path, request: TrialRequest) -> TrialObservation:
    trials = LocalTrials(folder)
    await trials.start(request)
    [one] = await finished(trials)
    return one


async def test_the_real_program_trains_and_reports(tmp_path: Path) -> None:
    request = make_request("measure", world=2, request={"nodes": 2, "processes_per_node": 1})
    one = await real_outcome(tmp_path, request)
    assert one.failure is None, one.message
    assert one.report is not None
    assert one.report.measured is not None
    assert one.report.measured.world_size == 2


def test_the_probe_measures_once_and_remembers(tmp_path: Path) -> None:
    cache = tmp_path / "cache" / "cpu.json"
    measured = probe_cpu(cache)
    assert measured.keys() == FIELDS
    preset = Accelerator.parse({"name": "cpu", "vendor": "cpu", **measured})
    assert preset.peak_flops_per_second["fp32"] > 1e8
    assert probe_cpu(cache, python="/no/such/python") == measured


def test_a_broken_cache_is_measured_anew_and_a_missing_python_is_explained(tmp_path: Path) -> None:
    cache = tmp_path / "cpu.json"
    cache.write_text("{")
    with pytest.raises(TuningError, match="install torch"):
        probe_cpu(cache, python="/no/such/python")
