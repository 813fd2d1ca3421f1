"""Trials on several nodes, each node a process of the program: they gather, train together, and tell once."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster.ports import free_ports
from tests.unit.trial.requests import make_request
from tunewright.trial_protocol.codec import decode_report, encode_request
from tunewright.trial_protocol.early_stop import LEAST_STEPS
from tunewright.trial_protocol.report import TrialReport
from tunewright.trial_protocol.request import TrialRequest
from tunewright_trial.failures import TrialFailure
from tunewright_trial.gathering import gather

SECONDS = 120


def two_nodes(**options: Any) -> TrialRequest:
    one = make_request("measure", world=1)
    cluster = one.problem.cluster.model_copy(update={"nodes": 2})
    problem = one.problem.model_copy(update={"cluster": cluster})
    return one.model_copy(update={"problem": problem, "nodes": 2, **options})


class NodeProcess:
    """One node of a trial."""

    def __init__(self, folder: Path, request: TrialRequest, rank: int, port: int, seconds: float = SECONDS) -> None:
        self._request = request
        self._folder = folder / f"node-{rank}"
        self._folder.mkdir()
        (self._folder / "request.json").write_text(encode_request(request))
        placed = {"JOB_COMPLETION_INDEX": str(rank), "MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}
        waits = {"TUNEWRIGHT_START_SECONDS": str(seconds), "TUNEWRIGHT_MET_FILE": str(self.met_file)}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tunewright_trial", "--request", "request.json", "--report", "report.json"],
            cwd=self._folder,
            env={**os.environ, "GLOO_SOCKET_IFNAME": "lo", **placed, **waits},
            stderr=subprocess.PIPE,
            text=True,
        )

    @property
    def met_file(self) -> Path:
        return self._folder / "met"

    def finish(self) -> tuple[int, TrialReport | None, str]:
        _, said = self.process.communicate(timeout=SECONDS)
        file = self._folder / "report.json"
        report = decode_report(file.read_text(), self._request.identity) if file.exists() else None
        return self.process.returncode, report, said


def test_two_nodes_train_together_and_the_first_tells(tmp_path: Path) -> None:
    request, (port,) = two_nodes(), free_ports(1)
    second = NodeProcess(tmp_path, request, 1, port)  # calls before anybody listens
    first = NodeProcess(tmp_path, request, 0, port)
    code, report, said = first.finish()
    assert report is not None and report.measured is not None, said
    assert (code, report.measured.nodes, report.measured.world_size) == (0, 2, 2)
    assert second.finish()[:2] == (0, None)
    assert first.met_file.exists() and second.met_file.exists()


def test_two_nodes_stop_at_the_same_step_where_they_clearly_lose(tmp_path: Path) -> None:
    request, (port,) = two_nodes(cutoff_step_seconds=1e-9, warmup_steps=1, steps=40), free_ports(1)
    nodes = [NodeProcess(tmp_path, request, rank, port) for rank in (0, 1)]
    (code, report, said), (other_code, nothing, other_said) = (node.finish() for node in nodes)
    assert report is not None and report.measured is not None, said
    assert (code, other_code, nothing) == (0, 0, None)
    assert (report.measured.stopped_early, len(report.measured.step_seconds)) == (LEAST_STEPS, LEAST_STEPS)
    assert len(report.measured.losses) == 1 + LEAST_STEPS
    assert "rank 0 stops after 4 of 40 timed steps" in said
    assert "rank 1 stops after 4 of 40 timed steps" in other_said


def test_a_rank_that_fails_is_named_with_its_rank_in_the_whole_job(tmp_path: Path) -> None:
    device = two_nodes().device.model_copy(update={"preset": "mi355x", "vendor": "amd", "architecture": "gfx950"})
    request, (port,) = two_nodes(device=device), free_ports(1)
    nodes = [NodeProcess(tmp_path, request, rank, port) for rank in (0, 1)]
    reports = [node.finish()[1] for node in nodes]
    assert [report.failure for report in reports if report] == ["DeviceMismatch"] * 2
    assert [report.message.partition(":")[0] for report in reports if report] == ["rank 0", "rank 1"]


def test_a_node_that_does_not_come_is_named_by_the_one_that_waits(tmp_path: Path) -> None:
    node = NodeProcess(tmp_path, two_nodes(), 0, free_ports(1)[0], seconds=0.2)
    code, report, _ = node.finish()
    assert report is not None
    assert (code, report.failure, report.message) == (3, "RcclFailure", "node(s) 1 not here after 0.2 s")
    assert not node.met_file.exists()


def test_who_cannot_reach_the_first_node_says_where_it_looked(tmp_path: Path) -> None:
    port = free_ports(1)[0]
    _, report, _ = NodeProcess(tmp_path, two_nodes(), 1, port, seconds=0.2).finish()
    assert report is not None
    assert report.failure == "RcclFailure"
    assert f"node 1: node 0 at localhost:{port} gave no word within 0.2 s" in report.message


def test_a_pod_that_is_ended_while_it_waits_leaves_a_report(tmp_path: Path) -> None:
    port = free_ports(1)[0]
    with socket.create_server(("localhost", port)) as listener:
        node = NodeProcess(tmp_path, two_nodes(), 1, port)
        with listener.accept()[0] as caller:
            caller.recv(100)
            node.process.send_signal(signal.SIGTERM)
            _, report, _ = node.finish()
    assert report is not None
    assert report.failure == "Preempted"


@pytest.mark.parametrize(
    "hello",
    [b"GET / HTTP/1.1\r\n\r\n", b'{"request": "another", "node": 1}\n', b'{"node": 1}\n', b"[]\n", b"\n"],
    ids=["http", "another-trial", "nobody", "no-object", "empty"],
)
def test_strangers_at_the_door_are_no_nodes(hello: bytes) -> None:
    request, (port,) = two_nodes(), free_ports(1)
    environment = {"NODE_RANK": "0", "MASTER_PORT": str(port), "TUNEWRIGHT_START_SECONDS": "2"}
    child = os.fork()
    if child == 0:
        with socket.socket() as stranger:
            while stranger.connect_ex(("localhost", port)):
                os.sched_yield()
            stranger.sendall(hello)
            stranger.recv(1)
        os._exit(0)
    with pytest.raises(TrialFailure, match=r"node\(s\) 1 not here"):
        gather(request, environment)
    os.waitpid(child, 0)


def test_a_node_that_calls_again_counts_once() -> None:
    request = two_nodes(nodes=3)
    port = free_ports(1)[0]
    child = os.fork()
    if child == 0:
        hello = json.dumps({"request": request.digest(), "node": 2}).encode() + b"\n"
        for _ in range(2):
            with socket.socket() as caller:
                while caller.connect_ex(("localhost", port)):
                    os.sched_yield()
                caller.sendall(hello)
        os._exit(0)
    with pytest.raises(TrialFailure, match=r"^node\(s\) 1 not here"):
        gather(request, {"NODE_RANK": "0", "MASTER_PORT": str(port), "TUNEWRIGHT_START_SECONDS": "2"})
    os.waitpid(child, 0)
