"""What trials leave beside their reports: a folder for each attempt, and no harm where it cannot be written."""

import json
from pathlib import Path

import pytest

from tests.unit.trial.requests import make_request
from tunewright_trial.diagnostics import VARIABLE, Diagnostics, RankDiagnostics, folder_of


def test_attempts_that_share_a_volume_have_folders_of_their_own(tmp_path: Path) -> None:
    request = make_request()
    identity = request.identity.model_copy(update={"run_uid": "../a b", "attempt": 2})
    folder = folder_of(request.model_copy(update={"identity": identity}), {VARIABLE: "/here"}, tmp_path / "none")
    assert folder == "/here/___a_b-t0001-2"
    assert folder_of(request, {}, tmp_path) == str(tmp_path / "run-1-t0001-1")  # a volume where ours is looked for
    assert folder_of(request, {}, tmp_path / "none") == ""


def test_events_are_lines_of_json(tmp_path: Path) -> None:
    events = RankDiagnostics()
    events.add("lost")
    events.open(str(tmp_path / "deep" / "folder"), 3)
    events.add("step", number=0, seconds=0.5)
    events.add("failed", why=ValueError("x"))
    (first, second) = map(json.loads, (tmp_path / "deep" / "folder" / "rank-3.jsonl").read_text().splitlines())
    assert (first["event"], first["number"], first["seconds"]) == ("step", 0, 0.5)
    assert (second["event"], second["why"]) == ("failed", "x")


def test_a_full_volume_is_told_once_and_then_left_alone(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "full").symlink_to("/dev/full")
    kept = Diagnostics(str(tmp_path))
    for name in ("full", "full", "other"):
        kept.keep(name, "text")
    said = capfd.readouterr().err
    assert said.startswith("no diagnostics from here on: [Errno 28] No space left on device")
    assert said.count("\n") == 1
    assert not (tmp_path / "other").exists()
    assert not kept.are_wanted
