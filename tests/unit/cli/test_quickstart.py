"""The quickstart for real: trials as processes of this machine, in torch; the best are measured."""

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.unit.cli.test_bad_input import EXAMPLES, tunewright
from tunewright.adapters.ledger.file import read_ledger
from tunewright.planner.records import Round, TrialFinished

pytestmark = pytest.mark.slow

QUICKSTART = str(EXAMPLES / "quickstart.yaml")


def arguments(out: Path) -> list[str]:
    return ["run", QUICKSTART, "--trials", "local", "--out", str(out)]


def assert_complete(out: Path) -> None:
    result = json.loads((out / "result.json").read_text())
    assert result["state"] == "Succeeded"
    assert result["simulated"] is False
    assert result["counters"]["failed"] == 0
    assert result["counters"]["measured"] == 3
    assert result["bestMeasured"]["tokensPerSecondPerGPU"] > 0
    assert result["bias"]["samples"] == 3
    ended = Counter((r.trial, r.attempt) for r in read_ledger(out / "run.jsonl") if isinstance(r, TrialFinished))
    assert set(ended.values()) == {1}
    assert tunewright("replay", str(out / "run.jsonl")).stdout.startswith("identical")


def test_a_local_search_measures_real_jobs(tmp_path: Path) -> None:
    done = tunewright(*arguments(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "measured" in done.stdout.splitlines()[-3]
    assert_complete(tmp_path)


def test_a_search_that_was_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "tunewright.entry", *arguments(tmp_path)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    ledger = tmp_path / "run.jsonl"
    while process.poll() is None and not (ledger.exists() and '"type":"trial"' in ledger.read_text()):
        time.sleep(0.1)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = read_ledger(ledger)
    done = tunewright(*arguments(tmp_path))
    assert done.returncode == 0, done.stderr
    records = read_ledger(ledger)
    assert records[: len(before)] == before
    assert sum(isinstance(record, Round) for record in records) > sum(isinstance(r, Round) for r in before)
    assert_complete(tmp_path)
