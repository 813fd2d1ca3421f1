"""The report's 3,000 bytes: whatever a trial found, it is written, and every number that projections use is in it."""

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.trial.requests import make_request
from tunewright.trial_protocol.codec import decode_report
from tunewright.trial_protocol.report import (
    MAX_BYTES,
    MAX_RANKS,
    MAX_READING,
    MAX_SECONDS,
    MAX_TOKENS,
    MOST_COLLECTIVES,
    CollectiveTiming,
    DeviceFacts,
    FailureClass,
    LayerTiming,
    Measured,
    Profile,
    TrialReport,
)
from tunewright_trial.report_file import write_report
from tunewright_trial.timing import timing

LONGEST_UID = "u" * 64
GROUPS = ("tensor", "context", "expert", "expert tensor", "data", "expert data", "pipeline")
PHASES = ("layers", "edges", "optimizer", "collectives")


def of_length(length: int) -> st.SearchStrategy[str]:
    """Return texts of up to that many characters, most of them at their longest and outside ASCII."""
    return st.sampled_from(["n" * length, "é" * length, "\U0001f600" * length]) | st.text(max_size=length)


SECONDS = st.floats(1e-9, MAX_SECONDS)
LONG_SECONDS = st.sampled_from([1.23456e-05, 0.000123456, 123456.0]) | SECONDS.map(lambda value: float(f"{value:.6g}"))
LONG_LOSSES = st.sampled_from([-1.234567e-05, 0.0001234567, 11.93843]) | st.floats(-1e39, 1e39).map(
    lambda value: float(f"{value:.7g}")
)
DEVICES = st.builds(
    DeviceFacts,
    name=of_length(80),
    architecture=of_length(40),
    count=st.just(512),
    memory_bytes=st.just(MAX_BYTES),
    host=of_length(80),
    torch_version=of_length(40),
    runtime=of_length(80),
    clock_megahertz=st.just(MAX_READING),
    power_cap_watts=st.just(MAX_READING),
    co_tenants=st.just(MAX_READING),
)


@st.composite
def profiles(draw: st.DrawFn) -> Profile:
    """Draw a profile in which every field is there, with as many entries as it may have."""

    def layer() -> LayerTiming:
        passes: Any = {name: timing(draw(SECONDS), draw(st.floats(0, 1e3))) for name in LayerTiming.model_fields}
        return LayerTiming(**passes)

    collective = CollectiveTiming(
        operation="reduce-scatter", ranks=512, bytes=2**28, timing=timing(draw(SECONDS), draw(st.floats(0, 1e3)))
    )
    return Profile(
        dense_layer=layer(),
        moe_layer=layer(),
        embedding=layer(),
        head=layer(),
        optimizer_seconds_per_parameter=1.2345e-11,
        collectives=(collective,) * MOST_COLLECTIVES,
        contention=1.234,
        launch_overhead_seconds=1.2345e-06,
        saved_bytes_per_layer={"dense": MAX_BYTES, "moe": MAX_BYTES},
        peak_memory_bytes=MAX_BYTES,
        modelled_groups=GROUPS,
        spent_seconds=dict.fromkeys(PHASES, 1234.567),
        phase_peak_bytes=dict.fromkeys(PHASES, MAX_BYTES),
    )


@st.composite
def measurements(draw: st.DrawFn) -> Measured:
    """Draw a measurement of 64 steps and 64 stages."""
    return Measured(
        step_seconds=(draw(LONG_SECONDS),) * 64,
        tokens_per_step=MAX_TOKENS,
        world_size=MAX_RANKS,
        nodes=MAX_RANKS,
        peak_memory_bytes=MAX_BYTES,
        first_loss=draw(LONG_LOSSES),
        last_loss=draw(LONG_LOSSES),
        losses=(draw(LONG_LOSSES),) * 64,
        stage_peak_bytes=(MAX_BYTES,) * 64,
        stopped_early=64,
    )


def written(report: TrialReport) -> TrialReport:
    """Write a report and read it as the operator does, which refuses more than 3,000 bytes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.json"
        write_report(path, report)
        return decode_report(path.read_text(), report.identity)


def a_report(kind: Any, device: DeviceFacts, **outcome: Any) -> TrialReport:
    identity = make_request(kind).identity.model_copy(
        update={"run_uid": LONGEST_UID, "attempt": 99, "trial": "t999999"}
    )
    return TrialReport(identity=identity, device=device, runner="builtin", wall_seconds=123456.789, **outcome)


@settings(max_examples=40)
@given(profiles(), DEVICES)
def test_the_fullest_profile_keeps_what_projections_use(profile: Profile, device: DeviceFacts) -> None:
    found = written(a_report("profile", device, profile=profile)).profile
    assert found is not None
    left_out = {name: getattr(found, name) for name in ("spent_seconds", "phase_peak_bytes")}
    assert found == profile.model_copy(update=left_out)


@settings(max_examples=40)
@given(measurements(), DEVICES)
def test_the_fullest_measurement_keeps_its_steps(measured: Measured, device: DeviceFacts) -> None:
    found = written(a_report("measure", device, measured=measured)).measured
    assert found is not None
    left_out = {name: getattr(found, name) for name in ("stage_peak_bytes", "losses")}
    assert found == measured.model_copy(update=left_out)


@settings(max_examples=40)
@given(st.sampled_from(["DeviceOutOfMemory", "CrashInTraining"]), of_length(500), DEVICES)
def test_the_longest_failure_keeps_its_class_and_how_its_message_begins(
    failure: FailureClass, message: str, device: DeviceFacts
) -> None:
    found = written(a_report("measure", device, failure=failure, message=message))
    assert found.failure == failure
    assert message.startswith(found.message)
    assert len(found.message) >= min(len(message), 100)
