"""The Primus runner against a stand-in that obeys Primus's documented contract."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.builders import a_cluster, a_model, a_moe_model, a_problem
from tests.support.cluster.ports import free_ports
from tests.support.stand_in_primus import LAYER_MILLISECONDS, MEMORY_GIB, REST_MILLISECONDS
from tests.unit.trial.requests import make_request
from tunewright.domain.training_config import TrainingConfig
from tunewright.trial_protocol.codec import decode_report, encode_request
from tunewright.trial_protocol.identity import TrialKind
from tunewright.trial_protocol.report import FailureClass, TrialReport
from tunewright.trial_protocol.request import TrialRequest
from tunewright.units import GIB

ROOT = Path(__file__).parents[3]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    cli = tmp_path / "primus" / "runner" / "primus-cli"
    cli.parent.mkdir(parents=True)
    cli.write_text(f'PYTHONPATH={ROOT} exec {sys.executable} -m tests.support.stand_in_primus "$@"\n')
    return tmp_path / "primus"


def primus_request(kind: TrialKind = "profile", moe: bool = False, nodes: int = 1, **config: Any) -> TrialRequest:
    model = a_moe_model() if moe else a_model()
    cluster = a_cluster(nodes=nodes, gpus_per_node=4)
    problem = a_problem(model=model, cluster=cluster, global_batch_size=64, backend="primus")
    request: dict[str, Any] = {
        "problem": problem,
        "config": TrainingConfig.parse(config),
        "nodes": nodes,
        "processes_per_node": 4,
        "depths": (2, 4),
        "warmup_steps": 2,
        "steps": 5,
        "deadline_seconds": 60,
    }
    return make_request(kind, request=request)


def start(request: TrialRequest, home: Path, report: str = "report.json", **variables: str) -> "subprocess.Popen[str]":
    folder = home.parent
    (folder / "request.json").write_text(encode_request(request))
    command = [sys.executable, "-m", "tunewright_trial", "--request", "request.json", "--report", report]
    environment = {**os.environ, "PRIMUS_HOME": str(home), **variables}
    return subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True)


def report_of(request: TrialRequest, home: Path, **variables: str) -> TrialReport:
    process = start(request, home, **variables)
    _, said = process.communicate(timeout=120)
    assert (home.parent / "report.json").exists(), said
    return decode_report((home.parent / "report.json").read_text(), request.identity)


@pytest.mark.parametrize("moe", [False, True], ids=["dense", "moe"])
def test_a_profile_finds_the_time_of_a_layer_and_of_the_rest(moe: bool, home: Path) -> None:
    report = report_of(primus_request(moe=moe, tensor_parallel_size=2), home)
    assert report.failure is None, report.message
    profile = report.profile
    assert profile is not None
    layer = profile.moe_layer if moe else profile.dense_layer
    assert layer is not None and profile.head is not None
    parts = (layer.forward, layer.backward_input, layer.backward_weight)
    assert sum(part.seconds for part in parts) == pytest.approx(LAYER_MILLISECONDS / 1e3, rel=0.01)
    assert profile.head.forward.seconds * 3 == pytest.approx(REST_MILLISECONDS / 1e3 / 8, rel=0.01)
    assert profile.peak_memory_bytes == MEMORY_GIB * GIB
    assert profile.included_groups == ("tensor",)


def test_a_measurement_reads_steps_loss_and_memory(home: Path) -> None:
    schedule: dict[str, Any] = {
        "pipeline_schedule": "zero-bubble-h1",
        "overlap_grad_reduce": False,
        "overlap_param_gather": False,
    }
    report = report_of(primus_request("measure", pipeline_parallel_size=2, **schedule), home)
    assert report.failure is None, report.message
    measured = report.measured
    assert measured is not None
    assert len(measured.step_seconds) == 5
    assert set(measured.step_seconds) == {(REST_MILLISECONDS + LAYER_MILLISECONDS * 4 * 32) / 1e3}
    assert (measured.world_size, measured.peak_memory_bytes) == (4, MEMORY_GIB * GIB)
    assert measured.losses[:2] == (11.99, 11.98)
    assert report.runner == "primus"


@pytest.mark.parametrize(
    ("fault", "failure", "words"),
    [
        ("oom", "DeviceOutOfMemory", "Tried to allocate 2.00 GiB"),
        ("crash", "CrashInTraining", "something that no one foresaw"),
        ("nan", "NaNLoss", "finite loss"),
    ],
)
def test_a_fault_of_the_launcher_has_its_class(fault: str, failure: FailureClass, words: str, home: Path) -> None:
    kept = home.parent / "kept"
    report = report_of(primus_request("measure"), home, STAND_IN_FAULT=fault, TUNEWRIGHT_DIAGNOSTICS=str(kept))
    assert report.failure == failure
    assert words in report.message
    (log,) = kept.glob("*/node-0-launcher.log")
    assert ("iteration" if fault == "nan" else words) in log.read_text()


def test_a_launcher_that_hangs_is_killed_at_the_deadline(home: Path) -> None:
    request = primus_request("measure").model_copy(update={"deadline_seconds": 3.0})
    assert report_of(request, home, STAND_IN_FAULT="hang").failure == "Timeout"


def test_sigterm_ends_the_launcher_with_a_report(home: Path) -> None:
    request = primus_request("measure")
    process = start(request, home, STAND_IN_FAULT="hang")
    wait_for_launch(process.pid)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    report = decode_report((home.parent / "report.json").read_text(), request.identity)
    assert report.failure == "Preempted"


def wait_for_launch(process: int) -> None:
    """Return once the launcher runs below `process`."""
    children = Path(f"/proc/{process}/task/{process}/children")
    while not children.read_text().split():
        os.sched_yield()


def test_a_configuration_that_the_launcher_refuses_is_unsupported(home: Path) -> None:
    report = report_of(primus_request("measure", tensor_parallel_size=8), home)
    assert report.failure == "Unsupported"
    assert "world size" in report.message


def test_only_the_last_node_has_the_figures(home: Path) -> None:
    request, (port,) = primus_request("measure", nodes=2), free_ports(1)
    places = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}
    nodes = [start(request, home, f"report-{rank}.json", NODE_RANK=str(rank), **places) for rank in (0, 1)]
    said = [node.communicate(timeout=120)[1] for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0], said
    assert not (home.parent / "report-0.json").exists()
    last = decode_report((home.parent / "report-1.json").read_text(), request.identity)
    assert last.measured is not None
    assert last.measured.world_size == 8
