"""`report` and `export best`: files and text from a ledger alone, and what is said when that cannot be."""

import json
from pathlib import Path

import pytest
import yaml

from tests.support.records import a_header
from tests.support.reported import reported_run
from tests.unit.cli.test_bad_input import EXAMPLES, tunewright
from tests.unit.cli.test_commands import WIDTH
from tunewright.backends import megatron, primus
from tunewright.cli.export import run_export_best
from tunewright.cli.report import run_report
from tunewright.errors import InvalidInput
from tunewright.planner.chain import chained
from tunewright.report.story import story_of

MARKUP = "[bold red]words[/] of \x1b[31msomebody"


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("reported") / "run.jsonl"
    file.write_text(chained(reported_run())[0])
    return file


def test_the_page_and_the_trace_are_written(ledger: Path, tmp_path: Path) -> None:
    page, trace = tmp_path / "report.html", tmp_path / "trace.json"
    done = tunewright("report", str(ledger), "-o", str(page), "--trace", str(trace))
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert page.read_text().startswith("<!DOCTYPE html>")
    document = json.loads(trace.read_text())
    assert document["otherData"]["kind"] == "estimated"
    assert {event["ph"] for event in document["traceEvents"]} == {"M", "X"}


def test_the_text_tells_the_same_story_within_a_hundred_columns(ledger: Path) -> None:
    done = tunewright("report", str(ledger), "--text")
    assert done.returncode == 0, done.stderr
    for heading in ("What was asked", "How far to believe it", "What it cost", "How to reproduce it", "hypotheses"):
        assert heading in done.stdout
    tables = [line for line in done.stdout.splitlines() if line.startswith(("pipeline", "GPU hours", "Search space"))]
    assert tables
    assert all(len(line) <= WIDTH for line in tables)
    assert "GiB too much" in done.stdout


def test_somebodys_words_are_no_markup_of_the_terminal(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    file.write_text(chained(reported_run(MARKUP))[0])
    done = tunewright("report", str(file), "--text")
    assert done.returncode == 0, done.stderr
    assert "[bold red]words[/] of" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "error: --out: None: is missing: give -o FILE.html, --text or --trace FILE.json"),
        (("-o", "/nowhere/report.html"), "error: --out: '/nowhere/report.html': cannot be written: No such file"),
        (("--trace", "/nowhere/t.json"), "error: --trace: '/nowhere/t.json': cannot be written: No such file"),
    ],
)
def test_what_cannot_be_written_is_told(ledger: Path, arguments: tuple[str, ...], said: str) -> None:
    done = tunewright("report", str(ledger), *arguments)
    assert done.returncode == 2
    assert done.stderr.startswith(said)


def test_a_file_that_is_no_ledger_is_named(tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    file.write_text("{}\n")
    done = tunewright("report", str(file), "--text")
    assert done.returncode == 2
    assert str(file) in done.stderr
    assert "Traceback" not in done.stderr


def test_explain_writes_a_trace_where_the_name_says_so(tmp_path: Path) -> None:
    out = tmp_path / "pipeline.json"
    done = tunewright("explain", str(EXAMPLES / "mixtral-8x22b-mi355x.yaml"), "--timeline", str(out))
    assert done.returncode == 0, done.stderr
    names = [event["args"]["name"] for event in json.loads(out.read_text())["traceEvents"] if event["ph"] == "M"]
    assert names == ["configuration: tp1 pp4 ep8 mbs1 fp8", *(f"rank {rank}" for rank in range(4))]


def test_the_best_is_exported_for_every_launcher_and_reads_back(ledger: Path, tmp_path: Path) -> None:
    run_export_best(ledger, tmp_path / "best")
    best = story_of(reported_run()).best
    assert best is not None
    text = (tmp_path / "best" / "best-primus.yaml").read_text()
    assert primus.parse(text) == best.config
    arguments = (tmp_path / "best" / "best-megatron.args").read_text()
    if not arguments.startswith("#"):
        read = megatron.parse(arguments)
        assert read.pipeline_parallel_size == best.config.pipeline_parallel_size
    lines = (tmp_path / "best" / "best.env").read_text().splitlines()
    assert "HSA_NO_SCRATCH_RECLAIM=1" in lines
    script = (tmp_path / "best" / "best-primus.sh").read_text()
    assert all(f"export {line}" in script for line in lines)
    assert yaml.safe_load(text)["modules"]["pre_trainer"]["overrides"]["seq_length"] == 8192


def test_a_run_without_an_answer_exports_nothing(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    file.write_text(chained([a_header()])[0])
    with pytest.raises(InvalidInput, match="has no best configuration yet"):
        run_export_best(file, tmp_path / "best")
    assert not (tmp_path / "best").exists()


def test_a_run_without_an_answer_has_a_report(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    file.write_text(chained([a_header()])[0])
    run_report(file, tmp_path / "report.html", None, text=True)
    assert "Nothing is known yet" in (tmp_path / "report.html").read_text()
