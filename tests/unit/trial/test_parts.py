"""The small parts of the trial program: failures, timing, report file, layout, groups, device check."""

import errno
import re
import signal
from mmap import mmap
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.unit.trial.requests import make_request
from tunewright.domain.training_config import TrainingConfig
from tunewright.trial_protocol.codec import decode_report
from tunewright.trial_protocol.early_stop import is_losing
from tunewright.trial_protocol.report import (
    CollectiveTiming,
    DeviceFacts,
    FailureClass,
    LayerTiming,
    Measured,
    Profile,
    TrialReport,
)
from tunewright.trial_protocol.request import ExpectedDevice
from tunewright_trial.device import check_accelerators, environment_lines, select_device
from tunewright_trial.entry import outcome_of
from tunewright_trial.failures import TrialFailure, classify, unsupported
from tunewright_trial.layers.recompute import RecomputePolicy
from tunewright_trial.parallel.layout import Groups, Layout
from tunewright_trial.parallel.pipeline import stages_of_rank
from tunewright_trial.peak_memory import PeakMemory
from tunewright_trial.profile_collectives import modelled_groups
from tunewright_trial.report_file import write_report
from tunewright_trial.supervisor import Finding, _death, places, worst
from tunewright_trial.timing import Stretch, is_stable, median_timing, repetitions


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


def test_too_little_shared_memory_comes_with_the_remedy() -> None:
    error = RuntimeError("unable to open shared memory object </torch_1> in read-write mode: No space left on device")
    failure, message = classify(error)
    assert failure == "RcclFailure"
    assert message.startswith("too little shared memory, give /dev/shm more")


def test_a_median_comes_with_half_its_interquartile_range() -> None:
    timing = median_timing([1.0, 2.0, 3.0, 4.0, 5.0])
    assert timing.seconds == 3.0
    assert timing.spread == 0.333


def test_times_have_as_many_digits_as_they_deserve() -> None:
    assert median_timing([0.000123456789]).seconds == 0.00012346


@pytest.mark.parametrize(
    ("samples", "stable"),
    [
        ([1.0] * 5, False),  # too few for any interval
        ([1.0] * 8, True),
        ([1.0, 1.001] * 8, True),
        ([1.0, 1.1] * 8, False),
    ],
)
def test_samples_suffice_when_the_median_is_known_within_a_percent(samples: list[float], stable: bool) -> None:
    assert is_stable(samples) is stable


@pytest.mark.parametrize(
    ("steps", "loses"),
    [
        ([1.2] * 3, False),
        ([1.2] * 4, True),
        ([1.1] * 4, False),
        ([1.0, 1.0, 1.4, 1.4], False),
        ([1.2, 1.2, 1.2, 9.0], True),
        ([1.2, 0.1, 1.2, 1.2, 1.2, 1.2], True),
    ],
    ids=["too-few", "clear", "at-the-cutoff", "spread-reaches-it", "one-slow-step", "one-fast-step"],
)
def test_steps_lose_when_their_median_and_its_spread_are_beyond_the_cutoff(steps: list[float], loses: bool) -> None:
    assert is_losing(steps, 1.1) is loses
    assert not is_losing(steps, None)


def test_the_peak_of_memory_counts_from_its_restart() -> None:
    memory = PeakMemory(torch.device("cpu"))
    with mmap(-1, 2**26) as block:  # fresh pages; an allocator may hand out pages that are resident already
        block.write(bytes(2**26))
        assert memory.bytes >= 2**26
    memory.restart()
    assert memory.bytes < 2**26


def test_work_is_stretched_by_the_time_that_others_had(monkeypatch: pytest.MonkeyPatch) -> None:
    wall, own = iter([10.0, 16.0]), iter([1.0, 4.0])
    monkeypatch.setattr("time.perf_counter", lambda: next(wall))
    monkeypatch.setattr("time.thread_time", lambda: next(own))
    with Stretch(torch.device("cpu")) as stretch:
        pass
    assert stretch.factor == 2.0


@pytest.mark.parametrize(
    ("requested", "once", "expected"), [(3, 10.0, 3), (3, 0.01, 10), (3, 1e-9, 15), (20, 1e-9, 20)]
)
def test_cheap_things_are_repeated_more_often(requested: int, once: float, expected: int) -> None:
    assert repetitions(requested, once, 0.1, 15) == expected


def a_report(message: str = "") -> TrialReport:
    return TrialReport(identity=make_request().identity, failure="CrashInTraining", message=message)


def test_a_report_replaces_what_was_there_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text("x" * 5000)
    write_report(path, a_report("reason"))
    assert decode_report(path.read_text(), make_request().identity).message == "reason"
    assert list(tmp_path.iterdir()) == [path]


def test_a_message_that_is_too_long_in_bytes_is_shortened(tmp_path: Path) -> None:
    write_report(tmp_path / "report.json", a_report("é" * 500))
    report = decode_report((tmp_path / "report.json").read_text(), make_request().identity)
    assert set(report.message) == {"é"}


def test_the_fullest_profile_fits_into_a_report(tmp_path: Path) -> None:
    times = median_timing([0.0123456789, 0.0234567891, 0.0345678912])
    layer = LayerTiming(forward=times, backward_input=times, backward_weight=times)
    collective = CollectiveTiming(operation="reduce-scatter", ranks=128, bytes=2**28, timing=times)
    report = TrialReport(
        identity=make_request().identity.model_copy(update={"run_uid": "u" * 64}),
        profile=Profile(
            dense_layer=layer,
            moe_layer=layer,
            embedding=layer,
            head=layer,
            optimizer_seconds_per_parameter=1.2345e-11,
            collectives=(collective,) * 10,
            contention=1.234,
            launch_overhead_seconds=1.2345e-06,
            saved_bytes_per_layer={"dense": 2**34, "moe": 2**34},
            peak_memory_bytes=2**38,
            modelled_groups=("tensor", "context", "expert", "expert tensor", "data", "expert data", "pipeline"),
            spent_seconds={"layers": 12.345, "edges": 12.345, "optimizer": 1.234, "collectives": 10.123},
            phase_peak_bytes={"layers": 2**38, "edges": 2**38, "optimizer": 2**38, "collectives": 2**38},
        ),
        device=DeviceFacts(
            name="n" * 40,
            architecture="a" * 40,
            count=8,
            memory_bytes=2**38,
            host="h" * 80,
            torch_version="t" * 40,
            runtime="r" * 40,
            clock_megahertz=2400,
            power_cap_watts=1400,
            co_tenants=8,
        ),
        wall_seconds=123.456,
        runner="builtin",
    )
    write_report(tmp_path / "report.json", report)
    assert decode_report((tmp_path / "report.json").read_text(), report.identity) == report


@pytest.mark.parametrize(
    ("seconds", "loss", "left_out"), [(1.23456, 11.93843, ()), (0.000123456, 0.0001193843, (2**38,) * 64)]
)
def test_a_measurement_of_64_steps_and_stages_fits_or_loses_the_stages_alone(
    seconds: float, loss: float, left_out: tuple[int, ...], tmp_path: Path
) -> None:
    measured = Measured(
        step_seconds=(seconds,) * 64,
        tokens_per_step=2**40,
        world_size=4096,
        nodes=512,
        peak_memory_bytes=2**38,
        first_loss=loss,
        last_loss=loss,
        losses=(loss,) * 64,
        stage_peak_bytes=(2**38,) * 64,
    )
    identity = make_request("measure").identity.model_copy(update={"run_uid": "u" * 64})
    device = DeviceFacts(name="n" * 80, count=8, host="h" * 80, torch_version="t" * 40, runtime="r" * 80)
    report = TrialReport(identity=identity, measured=measured, device=device, wall_seconds=123.456, runner="builtin")
    write_report(tmp_path / "report.json", report)
    written = decode_report((tmp_path / "report.json").read_text(), identity)
    assert written.measured is not None
    stages = written.measured.stage_peak_bytes
    assert written.measured == measured.model_copy(update={"stage_peak_bytes": stages})
    assert stages == ((2**38,) * 64 if not left_out else ())


def test_a_report_for_a_folder_that_is_not_there_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="nowhere"):
        write_report(tmp_path / "nowhere" / "report.json", a_report())


@pytest.mark.parametrize("name", Groups.__dataclass_fields__)
@pytest.mark.parametrize(("tensor", "pipeline", "expert"), [(1, 1, 1), (2, 2, 2), (4, 1, 8), (1, 8, 1), (2, 2, 4)])
def test_every_rank_is_in_exactly_one_group_of_a_kind(tensor: int, pipeline: int, expert: int, name: str) -> None:
    groups = Layout(16, tensor, pipeline, expert).group_ranks(name)
    assert sorted(rank for group in groups for rank in group) == list(range(16))
    assert len({len(group) for group in groups}) == 1


def test_groups_follow_megatrons_rank_order() -> None:
    layout = Layout(8, tensor=2, pipeline=2, expert=2)
    assert layout.group_ranks("tensor")[0] == [0, 1]
    assert layout.group_ranks("data")[0] == [0, 2]
    assert layout.group_ranks("pipeline")[0] == [0, 4]
    assert layout.group_ranks("expert_data")[0] == [0, 2]


def test_context_ranks_lie_between_tensor_and_data_ranks_and_share_weights() -> None:
    layout = Layout(8, tensor=2, context=2)
    assert layout.group_ranks("context") == [[0, 2], [1, 3], [4, 6], [5, 7]]
    assert layout.group_ranks("data") == [[0, 2, 4, 6], [1, 3, 5, 7]]
    assert [layout.data_rank(rank) for rank in range(8)] == [0, 0, 0, 0, 1, 1, 1, 1]


def test_slices_of_an_expert_are_on_neighbours() -> None:
    layout = Layout(8, expert=2, expert_tensor=2)
    assert layout.group_ranks("expert_tensor")[0] == [0, 1]
    assert layout.group_ranks("expert")[:2] == [[0, 2], [1, 3]]
    assert layout.group_ranks("expert_data")[0] == [0, 4]


def test_tied_ends_on_different_ranks_form_pairs() -> None:
    assert Layout(8, pipeline=4, tied_apart=True).group_ranks("edges") == [[0, 6], [1, 7]]


@pytest.mark.parametrize(
    ("options", "rank", "stages"),
    [
        ({"pipeline_parallel_size": 2}, 1, [(1, [4, 5, 6, 7])]),
        ({"pipeline_parallel_size": 2, "pipeline_layout": "5,3"}, 1, [(1, [5, 6, 7])]),
        (
            {
                "pipeline_parallel_size": 2,
                "virtual_pipeline_parallel_size": 2,
                "pipeline_schedule": "interleaved-1f1b",
            },
            0,
            [(0, [0, 1]), (2, [4, 5])],
        ),
        (
            {"pipeline_parallel_size": 2, "virtual_pipeline_parallel_size": 2, "pipeline_schedule": "zero-bubble-v"},
            0,
            [(0, [0, 1]), (3, [6, 7])],
        ),
    ],
    ids=["1f1b", "uneven", "interleaved", "v-shaped"],
)
def test_a_rank_holds_the_layers_of_its_virtual_stages(
    options: dict[str, object], rank: int, stages: list[tuple[int, list[int]]]
) -> None:
    assert stages_of_rank(TrainingConfig.parse(options), 8, rank) == stages


@pytest.mark.parametrize(
    ("node_processes", "outside"),
    [(8, ()), (4, ("pipeline",)), (2, ("data", "pipeline")), (1, ("tensor", "data", "pipeline"))],
)
def test_groups_that_reach_beyond_the_node_are_modelled(node_processes: int, outside: tuple[str, ...]) -> None:
    request = make_request(
        world=8,
        request={"processes_per_node": node_processes},
        tensor_parallel_size=2,
        pipeline_parallel_size=2,
    )
    assert modelled_groups(request, places(request, {}, "")[0]) == outside


def test_the_log_names_the_variables_that_matter_and_no_others() -> None:
    variables = {"NCCL_IB_HCA": "mlx5", "HF_TOKEN": "secret", "OMP_NUM_THREADS": "1"}
    assert environment_lines(variables) == ["NCCL_IB_HCA=mlx5", "OMP_NUM_THREADS=1"]


def test_ranks_count_through_the_nodes() -> None:
    request = make_request(world=4, request={"nodes": 2, "processes_per_node": 2})
    assert [place.rank for place in places(request, {"NODE_RANK": "1"}, "")] == [2, 3]
    assert [place.rank for place in places(request, {"JOB_COMPLETION_INDEX": "0"}, "")] == [0, 1]


@pytest.mark.parametrize(
    ("policy", "units"),
    [
        (RecomputePolicy(), [(4, False)]),
        (RecomputePolicy("full"), [(1, True)] * 4),
        (RecomputePolicy("full", num_layers=3), [(3, True), (1, True)]),
        (RecomputePolicy("full", method="block", num_layers=1), [(1, True), (3, False)]),
        (RecomputePolicy("full", method="block", num_layers=9), [(1, True)] * 4 + [(0, False)]),
    ],
)
def test_full_recomputation_groups_layers(policy: RecomputePolicy, units: list[tuple[int, bool]]) -> None:
    assert policy._units(4) == units


MI300X = {"total_memory": 206_000_000_000, "gcnArchName": "gfx942:sramecc+:xnack-", "major": 9, "minor": 4}
PARTITIONED = {**MI300X, "total_memory": 25_700_000_000}


@pytest.mark.parametrize(
    ("found", "count", "words"),
    [
        (MI300X, 8, ""),
        ({**MI300X, "gcnArchName": "gfx950"}, 8, "device 0 has architecture gfx950, expected gfx942"),
        (MI300X, 4, "8 devices expected, 4 visible"),
        (PARTITIONED, 64, "partition mode?"),
    ],
    ids=["right", "architecture", "count", "partition"],
)
def test_devices_are_compared_with_the_preset(
    found: dict[str, Any], count: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.version.hip", "7.0")
    monkeypatch.setattr("torch.cuda.device_count", lambda: count)
    monkeypatch.setattr("torch.cuda.get_device_properties", lambda _: SimpleNamespace(**found))
    expected = ExpectedDevice(
        preset="mi300x", vendor="amd", architecture="gfx942", count=8, hbm_capacity_bytes=206_158_430_208
    )
    if not words:
        check_accelerators(expected)
        return
    with pytest.raises(TrialFailure, match=re.escape(words)) as failure:
        check_accelerators(expected)
    assert failure.value.failure == "DeviceMismatch"


def test_a_preset_of_another_vendor_is_a_device_mismatch() -> None:
    expected = ExpectedDevice(preset="mi355x", vendor="amd", architecture="no-such", count=1)
    with pytest.raises(TrialFailure) as failure:
        select_device(expected, 0)
    assert failure.value.failure == "DeviceMismatch"
