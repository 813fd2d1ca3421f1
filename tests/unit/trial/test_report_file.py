"""The report on disk: whole or not at all, and within 3,000 bytes whatever is in it."""

import os
from pathlib import Path

import pytest

from tests.unit.trial.requests import make_request
from tunewright.trial_protocol.codec import decode_report
from tunewright.trial_protocol.report import CollectiveTiming, DeviceFacts, LayerTiming, Measured, Profile, TrialReport
from tunewright_trial.report_file import write_report
from tunewright_trial.timing import median_timing


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


def test_a_pipe_that_nobody_reads_is_an_os_error_and_not_a_wait(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "report.json")
    with pytest.raises(OSError, match="No such device"):
        write_report(tmp_path / "report.json", a_report())
