"""The same `run` again: on another measurement of the machine, with a changed file, with a higher budget."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.cli.test_bad_input import EXAMPLES
from tests.unit.cli.test_commands import answer
from tunewright.adapters.trials.probe import FIELDS
from tunewright.domain.catalog_loader import shipped_catalog

BUDGET = "budget: {maxTrials: 30, maxFailedTrials: 5, maxGPUHours: 60, maxLLMCalls: 40}"


def run(file: Path, out: Path, *, gflops: int = 0) -> subprocess.CompletedProcess[str]:
    """Search with simulated trials. `gflops`: what this machine was measured with, left where a probe leaves it."""
    cache = out.parent / f"cache-{gflops}"
    if gflops:
        leave_probe(cache / "tunewright/cpu.json", gflops)
    command = [sys.executable, "-m", "tunewright.entry", "run", str(file), "--trials", "simulated", "--out", str(out)]
    environment = os.environ | {"XDG_CACHE_HOME": str(cache)}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def leave_probe(path: Path, gflops: int) -> None:
    import platform

    accelerator = {name: value for name, value in shipped_catalog().accelerator("cpu") if name in FIELDS}
    accelerator["peak_flops_per_second"] = dict.fromkeys(accelerator["peak_flops_per_second"], gflops * 1e9)
    machine = f"{platform.node()}, {platform.machine()}, {os.cpu_count()} cores"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"machine": machine, "accelerator": accelerator}))


def quickstart(folder: Path, **spec: Any) -> Path:
    document = yaml.safe_load((EXAMPLES / "quickstart.yaml").read_text())
    document["spec"] |= spec
    file = folder / "run.yaml"
    file.write_text(yaml.safe_dump(document))
    return file


def test_a_run_goes_on_with_the_machine_that_it_was_started_with(tmp_path: Path) -> None:
    file, out = quickstart(tmp_path), tmp_path / "out"
    assert run(file, out, gflops=100).returncode == 0
    before = (out / "run.jsonl").read_text()
    lines = before.splitlines(keepends=True)
    (out / "run.jsonl").write_text("".join(lines[: len(lines) // 2]))
    done = run(file, out, gflops=300)
    assert done.returncode == 0, done.stderr
    header = json.loads((out / "run.jsonl").read_text().splitlines()[0])
    assert set(header["problem"]["cluster"]["accelerator"]["peakFlopsPerSecond"].values()) == {100e9}
    assert answer("replay", str(out / "run.jsonl")).startswith("identical")


def test_what_differs_from_the_run_in_the_folder_is_named(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run(quickstart(tmp_path), out, gflops=100).returncode == 0
    done = run(quickstart(tmp_path, randomSeed=7, validation={"topK": 1, "steps": 5}), out, gflops=100)
    assert (done.returncode, done.stdout) == (2, "")
    assert sorted(done.stderr.splitlines()) == [
        "error: spec.randomSeed: 7: the run in this folder has 0: choose another --out, or --fresh",
        "error: spec.validation.topK: 1: the run in this folder has 2: choose another --out, or --fresh",
    ]


def mixtral(folder: Path, trials: int) -> Path:
    text = (EXAMPLES / "mixtral-8x22b-mi355x.yaml").read_text()
    assert BUDGET in text
    file = folder / "run.yaml"
    file.write_text(text.replace(BUDGET, f"budget: {{maxTrials: {trials}, maxGPUHours: 200}}"))
    return file


@pytest.fixture(scope="module")
def six(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("six") / "out"
    assert run(mixtral(out.parent, 6), out).returncode == 0
    assert result(out)["finishReason"] == "BudgetExhausted"
    assert result(out)["counters"]["profiles"] == 6
    return out


def result(out: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((out / "result.json").read_text())
    return document


def test_a_higher_budget_reopens_a_finished_run(six: Path) -> None:
    ledger = six / "run.jsonl"
    before = ledger.read_text()
    again = run(mixtral(six.parent, 6), six)
    assert (again.returncode, ledger.read_text()) == (0, before)
    assert "is finished (BudgetExhausted), this is its result. --fresh begins anew" in again.stderr
    done = run(mixtral(six.parent, 12), six)
    assert done.returncode == 0, done.stderr
    assert 6 < result(six)["counters"]["profiles"] <= 12
    assert ledger.read_text().startswith(before)
    assert answer("replay", "--strict", str(ledger)).startswith("identical")
