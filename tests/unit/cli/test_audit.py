"""What is done with a ledger afterwards: strict replay, rerun, compare, why."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.openai_server import proposals, serving
from tests.unit.cli.test_bad_input import EXAMPLES, tunewright
from tests.unit.cli.test_commands import WIDTH, answer
from tunewright.adapters.ledger.file import read_ledger
from tunewright.cli.replay import run_replay
from tunewright.domain.catalog_loader import Catalog
from tunewright.planner.chain import chained, unchained
from tunewright.planner.records import Advice, Header, Record, Round, TrialFinished, parse_record

CATALOG = Path(__file__).parents[3] / "operator/tunewright/domain/catalog"
MIXTRAL = str(EXAMPLES / "mixtral-8x22b-mi355x.yaml")
GOOD = proposals({"pp": 8, "ep": 8, "mbs": 1, "schedule": "zero-bubble-h1"}, {"tp": 2, "mbs": 4}, {"wheels": 4})


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("audited")
    answer("run", MIXTRAL, "--trials", "simulated", "--out", str(out))
    return out / "run.jsonl"


def rewritten(ledger: Path, to: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """Write a ledger anew after a change of its records, with a chain that holds."""
    documents = [unchained(json.loads(line)) for line in ledger.read_text().splitlines()]
    for document in documents:
        change(document)
    to.write_text(chained([parse_record(document) for document in documents])[0])
    return to


def ended(path: Path) -> list[TrialFinished]:
    return [record for record in read_ledger(path) if isinstance(record, TrialFinished)]


def test_an_edited_line_is_named(ledger: Path, tmp_path: Path) -> None:
    lines = ledger.read_text().splitlines()
    lines[20] = lines[20].replace('"type"', '"type" ')
    edited = tmp_path / "edited.jsonl"
    edited.write_text("\n".join(lines) + "\n")
    for command in (("replay",), ("replay", "--check"), ("compare", str(ledger)), ("rerun", "--no-llm", "--out", "x")):
        done = tunewright(*command, str(edited))
        assert done.returncode == 2
        assert done.stderr.startswith(f"error: {edited}:21: the chain is broken: ")
    done = tunewright("why", str(edited), "t0001")
    assert done.stderr.startswith(f"error: {edited}:21: the chain is broken: ")


def test_a_strict_replay_derives_every_projection_again(ledger: Path) -> None:
    said = answer("replay", "--strict", str(ledger))
    recorded = sum(len(record.projections) for record in read_ledger(ledger) if isinstance(record, Round))
    assert recorded > 20
    assert f"identical: {recorded} projections from their reports" in said


def test_a_check_counts_without_deriving(ledger: Path) -> None:
    said = answer("replay", "--check", str(ledger))
    assert said.startswith(f"whole: {len(read_ledger(ledger))} records")
    assert f"{sum(not record.failure for record in ended(ledger))} " not in said.split("trials failed")[1]
    last = json.loads(ledger.read_text().splitlines()[-1])
    assert said.rstrip().endswith(last["digest"])


def test_a_projection_of_another_version_is_named_as_such(ledger: Path, tmp_path: Path) -> None:
    def older(document: dict[str, Any]) -> None:
        if document["type"] == "header":
            document["operatorVersion"] = "0.0.9"
        for figure in document.get("projections", ()):
            figure["projected"] *= 1.02

    other = rewritten(ledger, tmp_path / "older.jsonl", older)
    assert answer("replay", str(other)).startswith("identical"), "decisions do not depend on what was recorded"
    done = tunewright("replay", "--strict", str(other))
    assert done.returncode == 1
    first, second = done.stdout.splitlines()
    assert first.startswith(f"different: {other}:") and ".projected of t0001: recorded" in first
    assert second.startswith("the ledger was written by tunewright 0.0.9, this is ")


def test_a_catalog_that_changes_a_number_is_named_as_such(
    ledger: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(CATALOG, tmp_path / "catalog")
    network = tmp_path / "catalog" / "networks" / "mi355x-pollara.yaml"
    network.write_text(re.sub(r"efficiency: [0-9.]+", "efficiency: 0.11", network.read_text(), count=1))
    other = Catalog(tmp_path / "catalog")
    monkeypatch.setattr("tunewright.cli.replay.catalog_of", lambda _: other)
    run_replay(ledger, strict=True, check=False)
    lines = capsys.readouterr().out.splitlines()
    header = read_ledger(ledger)[0]
    assert isinstance(header, Header)
    versions = f"catalog {header.catalog_version} then, {other.version} now"
    assert f"{versions}: network mi355x-pollara changed; the ledger's values were used" in lines
    changed = next(line for line in lines if line.startswith("with the catalog of this build, line "))
    assert re.search(r"projections\[\d+\]\.projected of t0001: recorded [0-9.]+, derived [0-9.]+$", changed)


def test_a_catalog_that_changes_nothing_here_is_named_too(ledger: Path, tmp_path: Path) -> None:
    def of_another_catalog(document: dict[str, Any]) -> None:
        if document["type"] == "header":
            document["catalogVersion"] = "0123456789ab"

    same = rewritten(ledger, tmp_path / "same.jsonl", of_another_catalog)
    said = answer("replay", "--strict", str(same))
    assert "catalog 0123456789ab then, " in said
    assert "now: nothing that this run uses is different" in said


@pytest.mark.slow
def test_a_rerun_without_an_llm_is_answered_by_the_ledger_alone(ledger: Path, tmp_path: Path) -> None:
    done = tunewright("rerun", str(ledger), "--no-llm", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    again = tmp_path / "run.jsonl"
    assert f"{len(ended(ledger))} trials were answered by the repeated ledger, 0 were run, 0 stayed" in done.stderr
    assert [r.recorded_from for r in ended(again)] == [r.trial for r in ended(ledger)]
    first, second = (json.loads((path.parent / "result.json").read_text()) for path in (ledger, again))
    assert second["bestMeasured"] == first["bestMeasured"]
    assert answer("replay", "--strict", str(again)).startswith("identical")
    header = read_ledger(again)[0]
    assert isinstance(header, Header)
    assert header.rerun_of == json.loads(ledger.read_text().splitlines()[-1])["digest"]
    assert tunewright("rerun", str(ledger), "--no-llm", "--out", str(tmp_path)).returncode == 0, "it is shown again"


@pytest.fixture(scope="module")
def other_llm(ledger: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    out = tmp_path_factory.mktemp("other")
    with serving(*(GOOD,) * 20) as server:
        where = ("--llm", "openai/other", "--api-base", server.api_base, "--price", "1,2", "--trials", "simulated")
        done = subprocess.run(
            [sys.executable, "-m", "tunewright.entry", "rerun", str(ledger), *where, "--out", str(out), "--json"],
            env={**os.environ, "TUNEWRIGHT_LLM_API_KEY": "sk-secret-of-the-test"},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    return out / "run.jsonl", done.stderr


@pytest.mark.slow
def test_a_rerun_with_another_llm_asks_it_and_runs_only_what_nothing_answers(
    ledger: Path, other_llm: tuple[Path, str]
) -> None:
    again, said = other_llm
    answers = [record for record in read_ledger(again) if isinstance(record, Advice)]
    assert answers and all(record.model == "openai/other" for record in answers)
    recorded = [record for record in ended(again) if record.recorded_from]
    assert recorded
    assert "0 stayed unanswered" in said
    assert answer("replay", "--strict", str(again)).startswith("identical")


@pytest.mark.slow
def test_prompt_answer_tokens_cost_and_latency_are_recorded_without_the_key(other_llm: tuple[Path, str]) -> None:
    text = other_llm[0].read_text()
    assert "sk-secret-of-the-test" not in text
    records: list[Record] = read_ledger(other_llm[0])
    first = next(record for record in records if isinstance(record, Advice))
    assert first.provider == "openai"
    assert "briefing" in first.exchanges[0].prompt
    assert '"wheels"' in first.exchanges[0].answer
    assert (first.usage.input_tokens, first.usage.output_tokens) == (100, 20)
    assert first.usage.cost_usd == pytest.approx(140e-6)
    assert first.latency_seconds > 0


@pytest.mark.slow
def test_runs_are_compared_side_by_side(ledger: Path, other_llm: tuple[Path, str]) -> None:
    lines = answer("compare", str(ledger), str(other_llm[0])).splitlines()
    assert max(map(len, lines[2:])) <= WIDTH
    rows = {line[: line.index("  ")] if "  " in line.strip() else line: line.split() for line in map(str.strip, lines)}
    assert rows["LLM tokens"][-2] == "0"
    assert float(rows["LLM cost, USD"][-1]) > 0
    document = json.loads(answer("compare", str(ledger), str(other_llm[0]), "--after", "1,3", "--json"))
    first, second = document["runs"]
    assert [mark["trials"] for mark in first["bestAfter"]] == [1, 3]
    assert (first["model"], second["model"]) == ("", "openai/other")
    assert first["gpuHours"] > 0 == first["recordedGPUHours"]
    assert second["llmCalls"] > 0 == first["llmCalls"]
    assert second["recordedTrials"] > 0


def test_a_decision_is_explained_in_words_and_numbers(ledger: Path) -> None:
    trial = next(r.trial for r in reversed(ended(ledger)) if r.report and r.report.measured)
    said = answer("why", str(ledger), trial)
    assert max(map(len, said.splitlines())) <= WIDTH
    for part in ("proposed by", "because", "known then", "verdict", "attempt 1", "projected", "measured", "bias"):
        assert f"\n{part}" in said
    document = json.loads(answer("why", str(ledger), trial, "--json"))
    assert document["measured"] and document["known"]["bestProjected"]["projected"] > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("why", "LEDGER", "t9999"), "error: TRIAL: 't9999': is not a trial of this ledger: it has t0001 to "),
        (("compare", "LEDGER"), "error: LEDGER: '1 given': name two to 8 ledgers"),
        (("compare", "LEDGER", "LEDGER", "--after", "5,x"), "error: --after: '5,x': must be numbers of trials"),
        (("rerun", "LEDGER", "--out", "x"), "error: --llm: '': name another LLM with --llm, or say --no-llm"),
        (("rerun", "LEDGER", "--no-llm", "--llm", "a/b", "--out", "x"), "error: --llm: 'a/b': name another LLM"),
        (("rerun", "LEDGER", "--llm", "a/b", "--price", "1", "--out", "x"), "error: --price: '1': must be two numbers"),
        (("rerun", "LEDGER", "--no-llm", "--trials", "moon", "--out", "x"), "error: --trials: 'moon': must be one of"),
        (("rerun", "LEDGER", "--no-llm", "--out", "FOLDER"), "is where LEDGER lies: choose another folder"),
    ],
)
def test_bad_arguments_are_told_in_one_line(ledger: Path, arguments: tuple[str, ...], message: str) -> None:
    places = {"LEDGER": str(ledger), "FOLDER": str(ledger.parent)}
    done = tunewright(*(places.get(argument, argument) for argument in arguments))
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert message in done.stderr
