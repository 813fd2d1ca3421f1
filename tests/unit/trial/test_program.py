"""The program from outside: what it writes, how it exits, and that nothing of it survives."""

import json
import os
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.unit.trial.requests import DENSE, LATENT, MOE, make_request
from tunewright.trial_protocol.codec import decode_report, encode_request
from tunewright.trial_protocol.report import TrialReport
from tunewright.trial_protocol.request import ExpectedDevice, TrialRequest

PROGRAM = [sys.executable, "-m", "tunewright_trial"]
ENDLESS: dict[str, Any] = {"steps": 10**6}


def run_program(request: TrialRequest, folder: Path) -> tuple[int, TrialReport]:
    (folder / "request.json").write_text(encode_request(request))
    arguments = ["--request", "request.json", "--report", "report.json", "--diagnostics", "kept"]
    done = subprocess.run([*PROGRAM, *arguments], cwd=folder, capture_output=True, text=True, timeout=300)
    assert (folder / "report.json").exists(), done.stderr
    return done.returncode, decode_report((folder / "report.json").read_text(), request.identity)


def kept_events(folder: Path, rank: int) -> dict[str, list[dict[str, Any]]]:
    """Return what a rank left in the diagnostics, by the kind of event."""
    (file,) = (folder / "kept").glob(f"*/rank-{rank}.jsonl")
    found: dict[str, list[dict[str, Any]]] = {}
    for event in map(json.loads, file.read_text().splitlines()):
        found.setdefault(event["event"], []).append(event)
    return found


def start_endless(folder: Path, **options: object) -> tuple[subprocess.Popen[str], TrialRequest]:
    """Start a job of two ranks that never ends, and return when it has trained its first step."""
    request = make_request("measure", world=2, request={**ENDLESS, **options})
    (folder / "request.json").write_text(encode_request(request))
    arguments = ["--request", "request.json", "--report", "report.json", "--stop-with-stdin"]
    process = subprocess.Popen(
        [*PROGRAM, *arguments], cwd=folder, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    assert any(line.startswith("step 0 ") for line in process.stderr), "no step was trained"
    return process, request


def finish(process: subprocess.Popen[str]) -> None:
    process.communicate(timeout=60)


def descendants(process: int) -> list[int]:
    """Return the processes below one, deepest last."""
    children = [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    return [*children, *(deeper for child in children for deeper in descendants(child))]


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def survivors(family: list[int]) -> list[int]:
    """Return who is still alive after a while: the fork server needs a moment to notice that it is not needed."""
    limit = time.monotonic() + 30
    while (left := [member for member in family if alive(member)]) and time.monotonic() < limit:
        os.sched_yield()
    return left


def test_a_profile_has_every_number_of_a_dense_candidate(tmp_path: Path) -> None:
    code, report = run_program(make_request(world=2, tensor_parallel_size=2), tmp_path)
    assert code == 0
    profile = report.profile
    assert profile is not None
    assert profile.moe_layer is None
    for timing in (profile.dense_layer, profile.embedding, profile.head):
        assert timing is not None
        assert timing.forward.seconds > 0
        assert timing.backward_input.seconds + timing.backward_weight.seconds > 0
    assert profile.optimizer_seconds_per_parameter > 0
    assert profile.launch_overhead_seconds > 0
    assert profile.saved_bytes_per_layer.keys() == {"dense"}
    assert [(one.operation, one.ranks, one.bytes) for one in profile.collectives] == [
        ("all-gather", 2, 32 * 32 * 4),
        ("reduce-scatter", 2, 32 * 32 * 4),
    ]
    assert report.device is not None
    assert report.device.name == "cpu"
    assert profile.spent_seconds.keys() == {"layers", "edges", "optimizer", "collectives"}
    assert max(profile.phase_peak_bytes.values()) == profile.peak_memory_bytes
    check_samples(report, tmp_path)


def check_samples(report: TrialReport, folder: Path) -> None:
    """Every figure of the report is the median of samples that the first rank kept."""
    assert report.profile is not None and report.profile.embedding is not None
    events = kept_events(folder, 0)
    passes = {event["name"]: event for event in events["passes"]}
    assert passes.keys() == {"1 dense layers", "2 dense layers", "embedding", "head"}
    forward = report.profile.embedding.forward.seconds
    assert statistics.median(passes["embedding"]["forward"]) == pytest.approx(forward, rel=1e-4)
    medians = [statistics.median(event["seconds"]) for event in events["collective"]]
    assert medians == pytest.approx([one.timing.seconds for one in report.profile.collectives], rel=1e-4)
    assert events["began"][0]["device"]["name"] == "cpu"
    assert any(line.startswith("OMP_NUM_THREADS=") for line in events["began"][0]["environment"])
    assert decode_report((next((folder / "kept").iterdir()) / "node-0-report.json").read_text(), report.identity)


def test_a_profile_separates_dense_and_moe_layers(tmp_path: Path) -> None:
    request = make_request(model=MOE, world=2, expert_parallel_size=2, recompute_granularity="full")
    code, report = run_program(request, tmp_path)
    assert code == 0
    assert report.profile is not None
    assert report.profile.dense_layer is not None
    assert report.profile.moe_layer is not None
    hidden_bytes = 32 * 32 * 4
    assert report.profile.saved_bytes_per_layer == {"dense": hidden_bytes, "moe": hidden_bytes}  # the input alone
    assert "all-to-all" in {one.operation for one in report.profile.collectives}


def test_groups_beyond_the_node_are_flagged(tmp_path: Path) -> None:
    request = make_request(model=LATENT, world=4, request={"processes_per_node": 1}, tensor_parallel_size=2)
    code, report = run_program(request, tmp_path)
    assert code == 0
    assert report.profile is not None
    assert report.profile.modelled_groups == ("tensor", "data")
    assert report.profile.collectives == ()


def test_a_measurement_counts_steps_after_the_warm_up(tmp_path: Path) -> None:
    steps = {"warmup_steps": 1, "steps": 5, "cutoff_step_seconds": 1e6}
    request = make_request("measure", world=2, request=steps)
    code, report = run_program(request, tmp_path)
    assert code == 0
    measured = report.measured
    assert measured is not None
    assert (len(measured.step_seconds), measured.stopped_early) == (5, None)
    assert (measured.world_size, measured.nodes, measured.tokens_per_step) == (2, 1, 8 * 32)
    assert measured.tokens_per_second_per_gpu > 0
    assert len(measured.losses) == 6
    assert (measured.losses[0], measured.losses[-1]) == pytest.approx((measured.first_loss, measured.last_loss))
    assert measured.stage_peak_bytes == (measured.peak_memory_bytes,)
    assert report.runner == "builtin"
    ranks = [kept_events(tmp_path, rank) for rank in range(2)]
    slowest = [
        max(steps[0]["seconds"], steps[1]["seconds"]) for steps in zip(*(rank["step"] for rank in ranks), strict=True)
    ]
    assert slowest[1:] == pytest.approx(measured.step_seconds, rel=1e-4)
    assert max(rank["rank"][0]["peak_bytes"] for rank in ranks) == measured.peak_memory_bytes


HUGE = DENSE.model_copy(update={"hidden_size": 2**18, "ffn_hidden_size": 2**20})
"""Its MLP has matrices of one tebibyte each."""
WRONG_DEVICE = ExpectedDevice(preset="mi355x", vendor="amd", architecture="no-such", count=1)


@pytest.mark.parametrize(
    ("request_", "failure", "words"),
    [
        pytest.param(make_request(model=HUGE), "DeviceOutOfMemory", "allocate", id="out-of-memory"),
        pytest.param(make_request(precision="mxfp8"), "Unsupported", "mxfp8", id="precision"),
        pytest.param(make_request(model=MOE, moe_dispatcher="deepep"), "Unsupported", "deepep", id="dispatcher"),
        pytest.param(make_request(request={"device": WRONG_DEVICE}), "DeviceMismatch", "mi355x", id="device"),
        pytest.param(make_request("measure", micro_batch_size=3), "Unsupported", "globalBatchSize", id="batch"),
        pytest.param(
            make_request(
                "measure",
                world=2,
                pipeline_parallel_size=2,
                pipeline_schedule="interleaved-1f1b",
                virtual_pipeline_parallel_size=2,
                request={"problem": make_request(world=2).problem.model_copy(update={"global_batch_size": 5})},
            ),
            "Unsupported",
            "interleaved-1f1b",
            id="schedule",
        ),
        pytest.param(
            make_request("measure", world=2, optimizer="fsdp2", pipeline_parallel_size=2),
            "Unsupported",
            "fsdp2",
            id="optimizer",
        ),
        pytest.param(make_request("measure", world=3, tensor_parallel_size=2), "Unsupported", "3 ranks", id="degrees"),
        pytest.param(
            make_request(
                "measure", world=2, context_parallel_size=2, model=DENSE.model_copy(update={"sliding_window": 8})
            ),
            "Unsupported",
            "sliding window",
            id="window",
        ),
        pytest.param(make_request(request={"deadline_seconds": 0.2}), "Timeout", "rank 0 in start", id="deadline"),
        pytest.param(
            make_request("measure", world=2, request={"learning_rate": 1e30}), "NaNLoss", "step 1", id="nan-loss"
        ),
    ],
)
def test_a_failure_is_a_report_with_its_class(request_: TrialRequest, failure: str, words: str, tmp_path: Path) -> None:
    code, report = run_program(request_, tmp_path)
    assert (code, report.failure) == (3, failure)
    assert words in report.message
    if failure == "NaNLoss":
        assert "TrialFailure: the loss of step 1" in kept_events(tmp_path, 0)["failed"][0]["traceback"]


@pytest.mark.parametrize(
    ("text", "words"),
    [("{", "not JSON"), ("[]", "not a JSON object"), ('{"protocolVersion":99}', "version"), ("", "not JSON")],
)
def test_a_bad_request_is_one_line_and_no_report(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "request.json").write_text(text)
    arguments = ["--request", "request.json", "--report", "report.json"]
    done = subprocess.run([*PROGRAM, *arguments], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "report.json").exists()


def test_a_configuration_under_another_ones_digest_is_refused_in_one_line(tmp_path: Path) -> None:
    request = make_request(micro_batch_size=2)
    other = request.model_copy(update={"config": make_request(micro_batch_size=4).config})
    (tmp_path / "request.json").write_text(encode_request(other))
    arguments = ["--request", "request.json", "--report", "report.json"]
    done = subprocess.run([*PROGRAM, *arguments], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    assert f"names configuration {request.identity.config_digest} and holds {other.config.digest()[:16]}" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "report.json").exists()


def test_the_request_may_come_from_the_environment(tmp_path: Path) -> None:
    request = make_request(precision="mxfp8")  # the quickest answer
    environment = {
        **os.environ,
        "TUNEWRIGHT_REQUEST_JSON": encode_request(request),
        "TUNEWRIGHT_REPORT": str(tmp_path / "log"),
    }
    done = subprocess.run(PROGRAM, env=environment, capture_output=True)
    assert done.returncode == 3
    assert decode_report((tmp_path / "log").read_text(), request.identity).failure == "Unsupported"


def test_sigterm_leaves_a_report_and_no_process(tmp_path: Path) -> None:
    process, request = start_endless(tmp_path)
    family = descendants(process.pid)
    assert len(family) >= 3  # the fork server and two ranks
    asked = time.monotonic()
    process.send_signal(signal.SIGTERM)
    finish(process)
    assert time.monotonic() - asked < 10
    assert process.returncode == 3
    report = decode_report((tmp_path / "report.json").read_text(), request.identity)
    assert (report.failure, report.message) == ("Preempted", "interrupted by SIGTERM")
    assert survivors(family) == []


def test_sigterm_during_the_imports_leaves_a_report(tmp_path: Path) -> None:
    """It comes when the entry is imported: long before anything can answer it."""
    request = make_request()
    (tmp_path / "request.json").write_text(encode_request(request))
    (tmp_path / "interrupted.py").write_text(
        "import os, runpy, signal, sys\n"
        "class Interrupts:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'tunewright_trial.entry':\n"
        "            os.kill(os.getpid(), signal.SIGTERM)\n"
        "sys.meta_path.insert(0, Interrupts())\n"
        "runpy.run_module('tunewright_trial', run_name='__main__')\n"
    )
    arguments = ["interrupted.py", "--request", "request.json", "--report", "report.json"]
    done = subprocess.run([sys.executable, *arguments], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 3, done.stderr
    report = decode_report((tmp_path / "report.json").read_text(), request.identity)
    assert (report.failure, report.message) == ("Preempted", "interrupted by SIGTERM")


def test_the_end_of_standard_input_ends_everything(tmp_path: Path) -> None:
    process, request = start_endless(tmp_path)
    family = descendants(process.pid)
    finish(process)  # closes its standard input
    assert process.returncode == 3
    assert decode_report((tmp_path / "report.json").read_text(), request.identity).failure == "Cancelled"
    assert survivors(family) == []


def test_no_rank_survives_a_killed_program(tmp_path: Path) -> None:
    process, _ = start_endless(tmp_path)
    family = descendants(process.pid)
    process.kill()
    finish(process)
    assert survivors(family) == []


def test_a_killed_rank_is_named_in_the_report(tmp_path: Path) -> None:
    process, request = start_endless(tmp_path)
    family = descendants(process.pid)
    os.kill(family[-1], signal.SIGKILL)
    assert process.stderr is not None
    process.stderr.read()
    process.wait(60)
    report = decode_report((tmp_path / "report.json").read_text(), request.identity)
    assert report.failure == "HostOOMKilled"
    assert "rank 1" in report.message
    finish(process)
    assert survivors(family) == []


def test_the_supervisor_does_without_torch() -> None:
    code = "import sys, tunewright_trial.entry; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
