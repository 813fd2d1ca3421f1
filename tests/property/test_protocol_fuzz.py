"""The trial protocol under hostile input: whatever arrives, a reader gets the right attempt's report or a reason."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.trial.requests import MOE, make_request
from tunewright.domain.value import Value
from tunewright.errors import ProtocolError
from tunewright.trial_protocol.codec import decode_report, decode_request, encode_report, encode_request
from tunewright.trial_protocol.identity import PROTOCOL_MINOR, PROTOCOL_VERSION, TrialIdentity
from tunewright.trial_protocol.report import (
    MAX_REPORT_BYTES,
    CollectiveTiming,
    DeviceFacts,
    LayerTiming,
    Measured,
    Profile,
    Timing,
    TrialReport,
)

REQUEST = make_request(model=MOE, world=2, expert_parallel_size=2)
PROFILE, MEASURE = REQUEST.identity, REQUEST.identity.model_copy(update={"kind": "measure"})


def values(kind: type[Value], **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Build values from these fields alone: hypothesis would invent the ones whose JSON name differs."""
    return st.fixed_dictionaries(fields).map(lambda drawn: kind(**drawn))


SECONDS = st.integers(1, 10**9).map(lambda microseconds: microseconds / 1e6)
TIMINGS = values(Timing, seconds=SECONDS, spread=SECONDS)
LAYERS = values(LayerTiming, forward=TIMINGS, backward_input=TIMINGS, backward_weight=TIMINGS)
COLLECTIVES = values(
    CollectiveTiming,
    operation=st.sampled_from(["all-reduce", "all-to-all", "send-receive"]),
    ranks=st.integers(2, 4096),
    bytes=st.integers(1, 2**40),
    timing=TIMINGS,
)
PROFILES = values(
    Profile,
    dense_layer=st.none() | LAYERS,
    moe_layer=st.none() | LAYERS,
    collectives=st.lists(COLLECTIVES, max_size=3).map(tuple),
    saved_bytes_per_layer=st.dictionaries(st.sampled_from(["dense", "moe"]), st.integers(0, 2**50)),
)
MEASUREMENTS = values(
    Measured,
    step_seconds=st.lists(SECONDS, min_size=1, max_size=8).map(tuple),
    tokens_per_step=st.integers(1, 2**40),
    world_size=st.integers(1, 10**6),
    nodes=st.integers(1, 10**5),
    first_loss=SECONDS,
    last_loss=SECONDS,
    losses=st.lists(SECONDS, max_size=8).map(tuple),
    stopped_early=st.none() | st.integers(1, 64),
)
REPORTS = st.one_of(
    values(TrialReport, identity=st.just(PROFILE), profile=PROFILES, wall_seconds=SECONDS),
    values(TrialReport, identity=st.just(MEASURE), measured=MEASUREMENTS, simulated=st.booleans()),
    values(
        TrialReport,
        identity=st.just(PROFILE),
        failure=st.sampled_from(["DeviceOutOfMemory", "Timeout", "CrashInTraining"]),
        message=st.text(max_size=60),
        device=st.none() | values(DeviceFacts, name=st.text(max_size=80), count=st.integers(0, 64)),
    ),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
EXAMPLE = encode_report(
    TrialReport(
        identity=PROFILE,
        profile=Profile(dense_layer=LayerTiming(**{name: Timing(seconds=0.25) for name in LayerTiming.model_fields})),
    )
)


LAYER = LayerTiming(**{name: Timing(seconds=0.25) for name in LayerTiming.model_fields})
FULL_PROFILE = encode_report(
    TrialReport(
        identity=PROFILE,
        profile=Profile(
            dense_layer=LAYER,
            collectives=(CollectiveTiming(operation="all-reduce", ranks=2, bytes=1, timing=Timing(seconds=0.1)),),
            saved_bytes_per_layer={"dense": 1},
            peak_memory_bytes=1,
            spent_seconds={"compile": 1.0},
            phase_peak_bytes={"dense": 1},
        ),
        device=DeviceFacts(name="cpu", count=1, memory_bytes=1, clock_megahertz=1, power_cap_watts=1, co_tenants=1),
        wall_seconds=1.0,
    )
)
FULL_MEASUREMENT = encode_report(
    TrialReport(
        identity=MEASURE,
        measured=Measured(
            step_seconds=(1.0,),
            tokens_per_step=1,
            world_size=1,
            nodes=1,
            peak_memory_bytes=1,
            first_loss=1.0,
            last_loss=1.0,
            losses=(1.0,),
            stage_peak_bytes=(1,),
            stopped_early=1,
        ),
    )
)
SIGNED = ("firstLoss", "lastLoss", "losses")
"""Numbers that may be negative."""


def numbers_of(document: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Return the path of every number beside the identity and the version."""
    if isinstance(document, dict):
        items: list[tuple[str | int, Any]] = [(k, v) for k, v in document.items() if k != "identity"]
    elif isinstance(document, list):
        items = list(enumerate(document))
    else:
        is_number = isinstance(document, int | float) and not isinstance(document, bool)
        return [path] if is_number and path not in (("protocolVersion",), ("protocolMinor",)) else []
    return [found for key, value in items for found in numbers_of(value, (*path, key))]


NUMBERS = [
    (text, identity, path)
    for text, identity in ((FULL_PROFILE, PROFILE), (FULL_MEASUREMENT, MEASURE))
    for path in numbers_of(json.loads(text))
]
HUGE = st.floats(min_value=1e40, allow_infinity=False) | st.integers(min_value=10**40, max_value=10**300)
NEGATIVE = st.floats(max_value=-1e-9, allow_infinity=False) | st.integers(max_value=-1, min_value=-(10**300))


@settings(max_examples=300)
@given(st.sampled_from(NUMBERS), st.one_of(HUGE, NEGATIVE, st.just(1e30)))
def test_no_number_of_a_report_may_be_absurd(place: tuple[str, TrialIdentity, Any], value: float) -> None:
    text, identity, path = place
    if set(path) & set(SIGNED) and abs(value) < 1e40:
        return
    document = json.loads(text)
    inner = document
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    with pytest.raises(ProtocolError):
        decode_report(json.dumps(document), identity)


def test_a_report_with_every_number_is_read() -> None:
    assert decode_report(FULL_PROFILE, PROFILE).profile is not None
    assert decode_report(FULL_MEASUREMENT, MEASURE).measured is not None
    named = {str(path[-1]) for _, _, path in NUMBERS} | {str(path[-2]) for _, _, path in NUMBERS if len(path) > 1}
    assert {"phasePeakBytes", "savedBytesPerLayer", "spentSeconds", "ranks", "bytes", "stagePeakBytes"} <= named


@given(REPORTS)
def test_a_report_survives_the_codec(report: TrialReport) -> None:
    assert decode_report(encode_report(report), report.identity) == report


@given(REPORTS, st.data())
def test_a_truncated_report_is_refused(report: TrialReport, data: st.DataObject) -> None:
    text = encode_report(report)
    with pytest.raises(ProtocolError):
        decode_report(text[: data.draw(st.integers(0, len(text) - 1))], report.identity)


@given(st.integers(0, len(EXAMPLE) - 1), st.characters(codec="utf-8"))
def test_a_report_with_one_other_character_is_refused_or_still_a_report_of_this_attempt(at: int, other: str) -> None:
    text = EXAMPLE[:at] + other + EXAMPLE[at + 1 :]
    try:
        report = decode_report(text, PROFILE)
    except ProtocolError:
        return
    assert report.identity == PROFILE
    assert report.profile is not None


@given(st.text(max_size=200) | JSON.map(json.dumps))
def test_what_is_no_report_is_refused_with_a_reason(text: str) -> None:
    with pytest.raises(ProtocolError) as error:
        decode_report(text, PROFILE)
    assert str(error.value)


@given(st.sampled_from(["runUid", "trial", "attempt", "kind", "configDigest"]), JSON)
def test_a_report_of_another_attempt_is_refused(field: str, value: object) -> None:
    document = json.loads(EXAMPLE)
    if document["identity"].get(field) == value:
        return
    document["identity"][field] = value
    with pytest.raises(ProtocolError):
        decode_report(json.dumps(document), PROFILE)


@given(
    st.recursive(st.just([]), lambda inner: st.lists(inner, min_size=1, max_size=1), max_leaves=1), st.integers(1, 6)
)
def test_an_unknown_field_is_refused(value: object, number: int) -> None:
    document = json.loads(EXAMPLE) | {f"extra{number}": value}
    with pytest.raises(ProtocolError, match=f"extra{number}"):
        decode_report(json.dumps(document), PROFILE)


def by_a_newer_build(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document of the next minor, with fields that this build does not know, at several depths."""
    newer = json.loads(json.dumps(document)) | {"protocolMinor": PROTOCOL_MINOR + 1, "brandNew": 1}
    for value in newer.values():
        if isinstance(value, dict):
            value["brandNew"] = {"of": "a newer build"}
    return newer


def test_what_a_newer_minor_added_is_left_out() -> None:
    found = decode_report(json.dumps(by_a_newer_build(json.loads(EXAMPLE))), PROFILE)
    assert found == decode_report(EXAMPLE, PROFILE).model_copy(update={"protocol_minor": PROTOCOL_MINOR + 1})
    request = decode_request(json.dumps(by_a_newer_build(json.loads(encode_request(REQUEST)))))
    assert request == REQUEST.model_copy(update={"protocol_minor": PROTOCOL_MINOR + 1})


@pytest.mark.parametrize("minor", [0, PROTOCOL_MINOR, None, "9", 9.5, [9]])
def test_an_unknown_field_of_a_build_that_is_not_newer_is_a_mistake(minor: object) -> None:
    document = by_a_newer_build(json.loads(EXAMPLE)) | {"protocolMinor": minor}
    with pytest.raises(ProtocolError, match="brandNew"):
        decode_report(json.dumps(document), PROFILE)


def test_a_newer_version_is_refused_whatever_its_minor() -> None:
    document = by_a_newer_build(json.loads(EXAMPLE)) | {"protocolVersion": PROTOCOL_VERSION + 1}
    with pytest.raises(ProtocolError, match="version 2"):
        decode_report(json.dumps(document), PROFILE)


def test_a_report_from_before_minors_is_read() -> None:
    document = {key: value for key, value in json.loads(EXAMPLE).items() if key != "protocolMinor"}
    assert decode_report(json.dumps(document), PROFILE).profile is not None


def fields_of(document: dict[str, Any], path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Return the path of every leaf of nested mappings."""
    found: list[tuple[str, ...]] = []
    for key, value in document.items():
        found += fields_of(value, (*path, key)) if isinstance(value, dict) else [(*path, key)]
    return found


REQUEST_DOCUMENT = json.loads(encode_request(REQUEST))


@settings(max_examples=200)
@given(st.sampled_from(fields_of(REQUEST_DOCUMENT)), JSON)
def test_a_request_with_any_field_changed_is_read_or_refused_but_never_crashes(
    path: tuple[str, ...], value: object
) -> None:
    document = json.loads(json.dumps(REQUEST_DOCUMENT))
    inner = document
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    try:
        request = decode_request(json.dumps(document))
        assert path[0] != "config" or request == REQUEST, "another configuration under the same digest"
    except ProtocolError as error:
        assert "request" in str(error)
        return
    assert decode_request(encode_request(request)) == request


@pytest.mark.parametrize("size", [MAX_REPORT_BYTES + 1, 10**6])
def test_a_report_that_is_too_long_is_refused_before_it_is_read(size: int) -> None:
    with pytest.raises(ProtocolError, match="limit"):
        decode_report(EXAMPLE + " " * (size - len(EXAMPLE)), PROFILE)


def test_numbers_that_json_does_not_have_are_refused() -> None:
    for number in ("NaN", "Infinity", "-Infinity", "1e999", "9" * 2000):
        with pytest.raises(ProtocolError):
            decode_report(EXAMPLE.replace("0.25", number, 1), PROFILE)
