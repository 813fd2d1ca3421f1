"""Requests that cannot be right are refused before anything runs, and nothing that is no file is waited for."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.unit.trial.requests import make_request
from tunewright.errors import ProtocolError
from tunewright.trial_protocol.codec import decode_request, encode_request
from tunewright_trial.entry import MAX_REQUEST_BYTES, read_request


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("nodes", 2**40),
        ("processesPerNode", 10**9),
        ("depths", [0, 0]),
        ("depths", [-1, 2]),
        ("depths", [1, 10**9]),
        ("steps", 10**30),
        ("warmupSteps", 10**20),
        ("seed", 2**70),
        ("seed", -5),
        ("deadlineSeconds", 1e308),
        ("deadlineSeconds", 0),
        ("learningRate", 1e300),
        ("cutoffStepSeconds", -1.0),
    ],
)
def test_a_number_that_no_run_asks_for_is_refused_by_its_name(field: str, value: Any) -> None:
    document = json.loads(encode_request(make_request()))
    with pytest.raises(ProtocolError, match=rf"request\.{field}"):
        decode_request(json.dumps(document | {field: value}))


def test_a_pipe_or_a_device_is_no_request(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path / "pipe", tmp_path, Path("/dev/zero")):
        with pytest.raises(ProtocolError, match="is not a regular file"):
            read_request(str(place), {})


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    large = tmp_path / "request.json"
    large.touch()
    os.truncate(large, MAX_REQUEST_BYTES + 1)
    with pytest.raises(ProtocolError, match=f"the limit is {MAX_REQUEST_BYTES}"):
        read_request(None, {"TUNEWRIGHT_REQUEST": str(large)})
