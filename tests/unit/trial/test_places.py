"""Places that lack something, provoked for real in a mount namespace of its own: each ends in its class and remedy."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.trial.requests import make_request
from tests.unit.trial.test_program import PROGRAM
from tunewright.trial_protocol.codec import decode_report, encode_request
from tunewright.trial_protocol.report import TrialReport
from tunewright.trial_protocol.request import ExpectedDevice, TrialRequest
from tunewright_trial.host_memory import LEAST_SHARED_BYTES

NAMESPACE = ["unshare", "--mount", "sh", "-ec"]
SMALL_SHARED_MEMORY = "mount -t tmpfs -o size=64k tmpfs /dev/shm"
READ_ONLY = 'mount --bind "$1" "$1"; mount -o remount,bind,ro "$1"'
NOWHERE_TO_WRITE = """
mount --bind "$1" "$1"
for folder in / /tmp /var/tmp; do ! mountpoint -q $folder || mount -o remount,bind,ro $folder; done
unset TMPDIR TEMP TMP
"""


@pytest.fixture(scope="module", autouse=True)
def _namespaces() -> None:
    try:
        done = subprocess.run([*NAMESPACE, "mount -t tmpfs tmpfs /mnt"], capture_output=True, text=True)
        reason = done.stderr
    except OSError as error:
        reason = str(error)
    if reason:
        pytest.skip(f"FAULTS OF THE PLACE ARE NOT PROVOKED: run as root where mounts are allowed ({reason.strip()})")


def run_in(script: str, folder: Path, request: TrialRequest, *options: str) -> "subprocess.CompletedProcess[str]":
    """Run the program below `folder` after `script`, whose $1 is the folder `place` in it."""
    (folder / "place").mkdir(exist_ok=True)
    (folder / "request.json").write_text(encode_request(request))
    arguments = ["--request", str(folder / "request.json"), *options]
    words = [f'{script}\ncd /\nshift\nexec "$@"', "sh", str(folder / "place"), *PROGRAM, *arguments]
    return subprocess.run([*NAMESPACE, *words], capture_output=True, text=True)


def report_at(path: Path, request: TrialRequest) -> TrialReport:
    return decode_report(path.read_text(), request.identity)


def two_accelerators() -> TrialRequest:
    return make_request("measure", world=2, request={"device": ExpectedDevice(preset="mi355x", vendor="amd", count=2)})


def test_too_little_shared_memory_is_told_before_a_rank_starts(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    done = run_in(SMALL_SHARED_MEMORY, tmp_path, two_accelerators(), "--report", str(report))
    assert done.returncode == 3, done.stderr
    found = report_at(report, two_accelerators())
    assert found.failure == "RcclFailure"
    assert found.message.startswith("too little shared memory, give /dev/shm more: 65536 bytes")
    assert str(LEAST_SHARED_BYTES) in found.message


def test_a_full_shared_memory_has_its_class_where_torch_meets_it() -> None:
    code = (
        "import torch\nfrom tunewright_trial.failures import classify\n"
        "try:\n    torch.ones(2**20).share_memory_()\nexcept RuntimeError as error:\n    print(*classify(error))"
    )
    script = f'{SMALL_SHARED_MEMORY}\nexec "$@"'
    done = subprocess.run([*NAMESPACE, script, "sh", sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.startswith("RcclFailure too little shared memory, give /dev/shm more"), done


def test_where_no_file_can_be_written_the_place_is_at_fault(tmp_path: Path) -> None:
    report = tmp_path / "place" / "report.json"
    done = run_in(NOWHERE_TO_WRITE, tmp_path, make_request(), "--report", str(report))
    assert done.returncode == 3, done.stderr
    found = report_at(report, make_request())
    assert found.failure == "DeviceMismatch"
    assert found.message.startswith("the trial cannot write files here, give it a /tmp with room")


def test_a_report_for_a_read_only_volume_is_in_the_log(tmp_path: Path) -> None:
    report = tmp_path / "place" / "report.json"
    done = run_in(f"{READ_ONLY}; {SMALL_SHARED_MEMORY}", tmp_path, two_accelerators(), "--report", str(report))
    assert done.returncode == 3
    said, _, document = done.stderr.splitlines()[-1].partition(". It was: ")
    assert said == f"the report cannot be written to {report}: [Errno 30] Read-only file system: '{report}'"
    assert decode_report(document, two_accelerators().identity).failure == "RcclFailure"


def test_a_read_only_volume_for_diagnostics_costs_a_line_and_no_result(tmp_path: Path) -> None:
    request, report, place = make_request("measure"), tmp_path / "report.json", tmp_path / "place"
    done = run_in(READ_ONLY, tmp_path, request, "--report", str(report), "--diagnostics", str(place))
    assert report_at(report, request).measured is not None, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("no diagnostics from here on")]
    assert len(lines) == 2  # the supervisor and its rank
    assert all("Read-only file system" in line for line in lines)
    assert list(place.iterdir()) == []
