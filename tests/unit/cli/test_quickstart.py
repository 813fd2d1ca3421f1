"""The quickstart for real: trials as processes of this machine, in torch; the best are measured."""

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.support.records import measured_digests
from tests.unit.cli.test_bad_input import EXAMPLES, tunewright
from tunewright.adapters.ledger.file import read_ledger
from tunewright.planner.decisions import EnterPhase
from tunewright.planner.records import Round, TrialFinished

pytestmark = pytest.mark.slow

MEASURED = (3, 4, 5)
"""The baseline and two; one or two more where real times turn the projected order around."""
QUICKSTART = str(EXAMPLES / "quickstart.yaml")


def arguments(out: Path) -> list[str]:
    return ["run", QUICKSTART, "--trials", "local", "--out", str(out)]


def assert_complete(out: Path) -> None:
    result = json.loads((out / "result.json").read_text())
    assert result["state"] == "Succeeded"
    assert result["simulated"] is False
    assert result["counters"]["failed"] == 0
    measured = len(measured_digests(read_ledger(out / "run.jsonl")))
    assert result["counters"]["measured"] == measured
    assert measured in MEASURED
    assert result["bestMeasured"]["tokensPerSecondPerGPU"] > 0
    assert result["bias"]["samples"] == measured
    ended = Counter((r.trial, r.attempt) for r in read_ledger(out / "run.jsonl") if isinstance(r, TrialFinished))
    assert set(ended.values()) == {1}
    assert tunewright("replay", str(out / "run.jsonl")).stdout.startswith("identical")


def test_a_local_search_measures_real_jobs(tmp_path: Path) -> None:
    done = tunewright(*arguments(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "measured" in done.stdout.splitlines()[-3]
    assert_complete(tmp_path)


def heeding_signals() -> None:
    """What a shell in the background or nohup makes the tests ignore, the search must not inherit."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def interrupted(out: Path, line: str, number: signal.Signals) -> str:
    """Start or resume a search and end it as soon as it has written another `line`; return what it said."""

    def count() -> int:
        return (out / "run.jsonl").read_text().count(line) if (out / "run.jsonl").exists() else 0

    before = count()
    process = subprocess.Popen(
        [sys.executable, "-m", "tunewright.entry", *arguments(out)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heeding_signals,
    )
    while process.poll() is None and count() == before:
        time.sleep(0.1)
    process.send_signal(number)
    said = process.communicate(timeout=60)[1]
    assert process.returncode != 0
    return said


def test_interrupting_the_baseline_again_and_again_costs_time_and_nothing_else(tmp_path: Path) -> None:
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL, signal.SIGINT)
    said = [interrupted(tmp_path, '"type":"started"', number) for number in signals]
    assert f"What is known is in {tmp_path}: the same command goes on." in said[0]
    assert not any("Traceback" in text for text in said)
    done = tunewright(*arguments(tmp_path))
    assert done.returncode == 0, done.stderr
    records = read_ledger(tmp_path / "run.jsonl")
    ends = [r for r in records if isinstance(r, TrialFinished) and r.trial == "t0001"]
    assert [(end.attempt, end.failure) for end in ends] == [
        *((attempt, "Interrupted") for attempt in range(1, 6)),
        (6, None),
    ]
    assert_complete(tmp_path)
    phases = {d.reason for r in records if isinstance(r, Round) for d in r.decisions if isinstance(d, EnterPhase)}
    assert not any("no profile" in reason for reason in phases)


def test_a_search_that_was_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    ledger = tmp_path / "run.jsonl"
    interrupted(tmp_path, '"type":"trial"', signal.SIGKILL)
    before = read_ledger(ledger)
    done = tunewright(*arguments(tmp_path))
    assert done.returncode == 0, done.stderr
    records = read_ledger(ledger)
    assert records[: len(before)] == before
    assert sum(isinstance(record, Round) for record in records) > sum(isinstance(r, Round) for r in before)
    assert_complete(tmp_path)
