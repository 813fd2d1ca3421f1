"""The commands on the shipped examples, as a person types them."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.test_bad_input import EXAMPLES, tunewright
from tunewright.adapters.ledger.file import read_ledger
from tunewright.backends import primus
from tunewright.cli.narration import lines_of
from tunewright.domain.axes import describe
from tunewright.domain.training_config import TrainingConfig
from tunewright.planner.chain import chained, unchained
from tunewright.planner.decisions import StartTrial
from tunewright.planner.records import Round, parse_record

MIXTRAL = str(EXAMPLES / "mixtral-8x22b-mi355x.yaml")
WIDTH = 100


def answer(*arguments: str) -> str:
    done = tunewright(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("simulated")
    answer("run", MIXTRAL, "--trials", "simulated", "--out", str(out))
    return out


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_example_is_valid(example: Path) -> None:
    assert "valid" in answer("check", str(example))


def test_plan_ranks_what_fits_and_says_how_long_it_took() -> None:
    document: dict[str, Any] = json.loads(answer("plan", MIXTRAL, "--json"))
    space = document["space"]
    assert space["legal"] == space["fitting"] + space["filtered"]
    assert 0 < space["tight"] < space["fitting"]
    speeds = [candidate["estimated"]["tokensPerSecondPerGPU"] for candidate in document["candidates"]]
    assert len(speeds) == 10
    assert speeds == sorted(speeds, reverse=True)
    best = document["candidates"][0]
    assert sum(best["estimated"]["parts"].values()) == pytest.approx(best["estimated"]["stepSeconds"])
    assert best["memory"]["allocatedBytes"] > 0
    assert document["elapsedSeconds"] > 0
    assert 0 < document["forecast"]["trials"] <= 30
    assert document["forecast"]["validations"] == 5


def test_plan_fits_a_hundred_columns() -> None:
    lines = answer("plan", MIXTRAL).splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert any("legal configurations" in line for line in lines)
    assert any(line.startswith("Forecast of the search") for line in lines)


def test_where_nothing_fits_no_trial_is_forecast() -> None:
    plan = json.loads(answer("plan", MIXTRAL, "--json", "--nodes", "1"))["plans"][0]
    assert plan["space"]["fitting"] == 0
    assert set(plan["forecast"].values()) == {0}


def test_plan_shows_node_counts_side_by_side() -> None:
    lines = answer("plan", MIXTRAL, "--nodes", "4,8,16").splitlines()
    assert [line.split()[0] for line in lines if line.split()[0] in ("4", "8", "16")] == ["4", "8", "16"]


def test_explain_itemises_rules_memory_and_step() -> None:
    document = json.loads(answer("explain", MIXTRAL, "--set", "tensor=2", "--set", "pipeline=4", "--json"))
    assert document["legal"] and all(rule["ok"] for rule in document["rules"])
    assert document["config"]["tensorParallelSize"] == 2
    assert len(document["memory"]["ranks"]) == 4
    parts = document["estimated"]["parts"]
    assert sum(parts.values()) == pytest.approx(document["estimated"]["stepSeconds"])


def test_explain_of_an_illegal_configuration_names_every_broken_rule() -> None:
    document = json.loads(answer("explain", MIXTRAL, "--set", "tp=5", "--set", "pp=3", "--json"))
    broken = {rule["rule"] for rule in document["rules"] if not rule["ok"]}
    assert {"degrees-divide-world-size", "tensor-divides-heads", "layout-fits-layers"} <= broken
    assert "memory" not in document


def test_explain_draws_the_pipeline_of_a_legal_configuration(tmp_path: Path) -> None:
    picture = tmp_path / "timeline.svg"
    answer("explain", MIXTRAL, "--timeline", str(picture))
    assert picture.read_text().count(" forward ") == 4 * 16  # ranks, and 4·P of 32 micro batches
    done = tunewright("explain", MIXTRAL, "--set", "tp=5", "--timeline", str(picture))
    assert done.returncode == 2
    assert "an illegal configuration has no timeline" in done.stderr


def test_what_a_person_reads_of_a_search_names_each_configuration_once(simulated: Path) -> None:
    rounds = [record for record in read_ledger(simulated / "run.jsonl") if isinstance(record, Round)]
    started = [decision for record in rounds for decision in record.decisions if isinstance(decision, StartTrial)]
    lines = [line for record in rounds for line in lines_of(record)]
    told = [line for line in lines if any(line.startswith(f"  {one.trial}  {one.kind} ") for one in started)]
    assert len(told) == len(started) > 0
    assert all(line.count(describe(one.config)) == 1 for one, line in zip(started, told, strict=True))
    assert any(one.origin.reason.startswith(describe(one.config)) for one in started), "the surrogate's do"


def test_a_simulated_search_leaves_ledger_result_and_launch_files(simulated: Path) -> None:
    result = json.loads((simulated / "result.json").read_text())
    assert result["state"] == "Succeeded"
    assert result["simulated"] is True
    assert result["answer"].startswith("simulated")
    assert result["counters"]["filtered"] > 0
    best = TrainingConfig.parse(result["bestMeasured"]["configuration"])
    launched = primus.parse((simulated / "best-primus.yaml").read_text())
    assert launched.model_copy(update={"recompute_modules": best.recompute_modules}) == best
    assert (simulated / "best-megatron.args").read_text()


def test_a_simulated_search_replays_identically(simulated: Path) -> None:
    assert answer("replay", str(simulated / "run.jsonl")).startswith("identical")


def test_replay_names_the_first_difference(simulated: Path, tmp_path: Path) -> None:
    lines = (simulated / "run.jsonl").read_text().splitlines()
    number = next(n for n, line in enumerate(lines) if '"microBatchSize":2' in line and '"start-trial"' in line)
    lines[number] = lines[number].replace('"microBatchSize":2', '"microBatchSize":4', 1)
    changed = tmp_path / "changed.jsonl"
    changed.write_text(chained(parse_record(unchained(json.loads(line))) for line in lines)[0])
    done = tunewright("replay", str(changed))
    assert done.returncode == 1
    assert done.stdout.startswith(f"different: {changed}:{number + 1}: decisions")


def test_the_same_seed_gives_the_same_search(simulated: Path, tmp_path: Path) -> None:
    answer("run", MIXTRAL, "--trials", "simulated", "--out", str(tmp_path))
    first, second = (json.loads((out / "result.json").read_text()) for out in (simulated, tmp_path))
    for result in (first, second):
        result["spent"].pop("durationSeconds")
    assert first == second


def test_a_finished_run_is_shown_again_without_new_trials(simulated: Path) -> None:
    before = (simulated / "run.jsonl").read_text()
    shown = answer("run", MIXTRAL, "--trials", "simulated", "--out", str(simulated))
    assert "measured" in shown
    assert (simulated / "run.jsonl").read_text() == before


def test_another_request_in_the_same_folder_is_refused(simulated: Path) -> None:
    other = str(EXAMPLES / "llama-3-70b-mi355x.yaml")
    done = tunewright("run", other, "--trials", "simulated", "--out", str(simulated))
    assert done.returncode == 2
    lines = done.stderr.splitlines()
    model = "error: spec.workload.model.name: 'llama-3-70b': the run in this folder has 'mixtral-8x22b': "
    assert f"{model}choose another --out, or --fresh" in lines
    assert all(line.startswith("error: spec.") for line in lines)


def test_planning_imports_neither_torch_nor_the_cluster_nor_the_llm() -> None:
    script = (
        "import sys; sys.argv = ['tunewright', 'plan', sys.argv[1], '--json']\n"
        "import contextlib, io\n"
        "from tunewright.entry import main\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit): main()\n"
        "print(sorted({'torch', 'kopf', 'kubernetes', 'dspy', 'litellm'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script, MIXTRAL], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_ledger_whose_last_line_a_crash_cut_is_continued(simulated: Path, tmp_path: Path) -> None:
    whole = (simulated / "run.jsonl").read_text()
    (tmp_path / "run.jsonl").write_text(whole[: len(whole) - len(whole.splitlines()[-1]) // 2])
    answer("run", MIXTRAL, "--trials", "simulated", "--out", str(tmp_path))
    assert answer("replay", str(tmp_path / "run.jsonl")).startswith("identical")


def test_fresh_discards_an_earlier_run_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "run.jsonl").write_text("not a ledger\n")
    answer("run", MIXTRAL, "--trials", "simulated", "--out", str(tmp_path), "--fresh")
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert answer("replay", str(tmp_path / "run.jsonl")).startswith("identical")
