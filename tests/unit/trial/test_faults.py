"""Bad input and faults from outside: nodes that die, ports that are taken, places that cannot be written."""

import json
import os
import re
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.trial.requests import make_request
from tests.unit.trial.test_program import PROGRAM, descendants, finish, start_endless, survivors
from tunewright.trial_protocol.codec import decode_report, encode_request
from tunewright.trial_protocol.report import TrialReport
from tunewright.trial_protocol.request import TrialRequest


def a_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def on_two_nodes(**request: Any) -> TrialRequest:
    return make_request("measure", world=2, request={"nodes": 2, "processes_per_node": 1, **request})


def start_node(request: TrialRequest, folder: Path, node: int, port: int) -> subprocess.Popen[str]:
    folder.mkdir(exist_ok=True)
    (folder / "request.json").write_text(encode_request(request))
    environment = {
        **os.environ,
        "NODE_RANK": str(node),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "GLOO_SOCKET_IFNAME": "lo",
    }
    arguments = ["--request", "request.json", "--report", "report.json"]
    return subprocess.Popen(
        [*PROGRAM, *arguments], cwd=folder, env=environment, stderr=subprocess.PIPE, stdin=subprocess.PIPE, text=True
    )


def report_in(folder: Path, request: TrialRequest) -> TrialReport:
    return decode_report((folder / "report.json").read_text(), request.identity)


def test_when_a_node_dies_the_other_reports_a_failed_collective(tmp_path: Path) -> None:
    request, port = on_two_nodes(steps=10**6, deadline_seconds=120), a_free_port()
    nodes = [start_node(request, tmp_path / str(node), node, port) for node in (0, 1)]
    assert nodes[0].stderr is not None
    assert any(line.startswith("step 0 ") for line in nodes[0].stderr)
    nodes[1].kill()
    for node in nodes:
        finish(node)
    assert report_in(tmp_path / "0", request).failure == "RcclFailure"


def test_a_port_in_use_is_a_report_with_the_remedy(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        request = on_two_nodes(deadline_seconds=60)
        finish(start_node(request, tmp_path, 0, taken.getsockname()[1]))
    report = report_in(tmp_path, request)
    assert report.failure == "RcclFailure"
    assert "MASTER_PORT" in report.message


def test_a_rank_that_hangs_is_a_timeout_and_nothing_survives(tmp_path: Path) -> None:
    process, request = start_endless(tmp_path, deadline_seconds=15)
    family = descendants(process.pid)
    os.kill(family[-1], signal.SIGSTOP)
    assert process.stderr is not None
    process.stderr.read()
    process.wait(60)
    finish(process)
    report = report_in(tmp_path, request)
    assert report.failure == "Timeout"
    assert re.search(r"silent: .*rank 1 in step \d+", report.message)
    assert "rank 0 in step" in report.message  # it waits for the other
    assert survivors(family) == []


def without(document: dict[str, Any], *path: str, value: object) -> None:
    for name in path[:-1]:
        document = document[name]
    document[path[-1]] = value


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda it: without(it, "steps", value=0), "steps"),
        (lambda it: without(it, "config", "pipelineSchedule", value="best"), "pipelineSchedule"),
        (lambda it: without(it, "problem", "model", "hiddenSize", value=-1), "hiddenSize"),
        (lambda it: without(it, "protocolVersion", value=2), "version 2"),
    ],
    ids=["no-steps", "schedule", "shape", "newer-protocol"],
)
def test_a_request_that_is_refused_is_told_its_sender(
    change: Callable[[dict[str, Any]], None], words: str, tmp_path: Path
) -> None:
    request = make_request()
    document = json.loads(encode_request(request))
    change(document)
    (tmp_path / "request.json").write_text(json.dumps(document))
    arguments = ["--request", "request.json", "--report", "report.json"]
    done = subprocess.run([*PROGRAM, *arguments], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    report = report_in(tmp_path, request)
    assert report.failure == "Unsupported"
    assert words in report.message


def test_a_report_that_cannot_be_written_is_in_the_last_line(tmp_path: Path) -> None:
    document = json.loads(encode_request(make_request()))
    (tmp_path / "request.json").write_text(json.dumps(document | {"steps": 0}))
    arguments = ["--request", "request.json", "--report", "/proc/report.json"]
    done = subprocess.run([*PROGRAM, *arguments], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    said, _, written = done.stderr.splitlines()[-1].partition(". It was: ")
    assert said.startswith("the report cannot be written to /proc/report.json: ")
    assert decode_report(written, make_request().identity).failure == "Unsupported"


@pytest.mark.parametrize("streams", ["2>/dev/full", "<&- >&- 2>&-"], ids=["full", "closed"])
def test_a_log_that_cannot_be_written_costs_no_report(streams: str, tmp_path: Path) -> None:
    document = json.loads(encode_request(make_request()))
    (tmp_path / "request.json").write_text(json.dumps(document | {"steps": 0}))
    arguments = ["--request", "request.json", "--report", "report.json"]
    done = subprocess.run(["sh", "-c", f'exec "$@" {streams}', "sh", *PROGRAM, *arguments], cwd=tmp_path)
    assert done.returncode == 2
    assert report_in(tmp_path, make_request()).failure == "Unsupported"
