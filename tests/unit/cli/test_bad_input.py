"""Bad input on the command line: exit code 2, one line for each problem, no traceback."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

EXAMPLES = Path(__file__).parents[3] / "examples"


def tunewright(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tunewright.entry", *arguments], capture_output=True, text=True, check=False
    )


def changed(path: tuple[str, ...], value: object) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((EXAMPLES / "mixtral-8x22b-mi355x.yaml").read_text())
    document["spec"].pop("validation")
    document["spec"].pop("baseline")
    place: dict[str, Any] = document
    for key in path[:-1]:
        place = place.setdefault(key, {})
    place[path[-1]] = value
    return document


CASES = {
    "unknown model": (("spec", "workload", "model"), {"preset": "mixtrl-8x22b"}, ["mixtrl-8x22b", "mixtral-8x22b"]),
    "unknown accelerator": (("spec", "cluster", "accelerator"), {"preset": "mi356x"}, ["mi356x", "mi355x"]),
    "unknown axis value": (("spec", "searchSpace"), {"pipelineSchedule": ["1f2b"]}, ["pipelineSchedule", "1f2b"]),
    "a typo in a field": (("spec", "workload", "sequenceLenght"), 4096, ["sequenceLenght", "not a known field"]),
    "an illegal baseline": (("spec", "baseline"), {"tensorParallelSize": 3}, ["tensor", "3"]),
    "a baseline that does not fit": (
        ("spec", "baseline"),
        {"expertParallelSize": 1, "microBatchSize": 8},
        ["does not fit", "GiB"],
    ),
    "a cluster too small": (("spec", "cluster", "nodes"), 1, ["spec.cluster", "too small", "use more nodes"]),
    "an empty search space": (("spec", "searchSpace"), {"pipelineParallelSize": [3]}, ["searchSpace"]),
    "a number that is text": (("spec", "workload", "globalBatchSize"), "many", ["globalBatchSize", "many"]),
    "another kind": (("kind",), "Pod", ["kind", "Pod"]),
}


@pytest.mark.parametrize(("path", "value", "expected"), CASES.values(), ids=CASES.keys())
def test_a_bad_spec_is_told_with_field_value_and_remedy(
    tmp_path: Path, path: tuple[str, ...], value: object, expected: list[str]
) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(yaml.safe_dump(changed(path, value)))
    done = tunewright("check", str(file))
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert all(text in done.stderr for text in expected), done.stderr
    assert done.stdout == ""


def test_a_batch_that_no_split_divides_is_told_with_a_remedy(tmp_path: Path) -> None:
    document = changed(("spec", "workload", "globalBatchSize"), 511)
    document["spec"]["cluster"]["nodes"] = 64
    file = tmp_path / "run.yaml"
    file.write_text(yaml.safe_dump(document))
    done = tunewright("check", str(file))
    assert done.returncode == 2
    assert done.stderr.startswith("error: spec.workload.globalBatchSize: 511: no split of 512 GPUs divides it")


@pytest.mark.parametrize(
    ("content", "expected"),
    [(b"a: [", "is not YAML"), (b"- 1", "must hold one TuningRun"), (b"\xff\xfe", "not UTF-8"), (b"", "must hold one")],
)
def test_a_file_that_is_no_tuning_run_is_refused(tmp_path: Path, content: bytes, expected: str) -> None:
    file = tmp_path / "run.yaml"
    file.write_bytes(content)
    done = tunewright("plan", str(file))
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert expected in done.stderr


ARGUMENTS = {
    "missing file": (["check", "no.yaml"], "no.yaml"),
    "unknown axis": (["explain", "FILE", "--set", "tensr=2"], "did you mean tensor"),
    "no value": (["explain", "FILE", "--set", "tensor"], "AXIS=VALUE"),
    "a word for a number": (["explain", "FILE", "--set", "tp=two"], "whole number"),
    "unknown schedule": (["explain", "FILE", "--set", "schedule=fast"], "must be one of"),
    "bad node counts": (["plan", "FILE", "--nodes", "4,x"], "--nodes"),
    "unknown place": (["run", "FILE", "--trials", "moon", "--out", "OUT"], "local, simulated"),
    "missing ledger": (["replay", "no.jsonl"], "cannot be read"),
    "no namespace": (["export", "ledger", "quickstart"], "NAMESPACE/NAME"),
}


@pytest.mark.parametrize(("arguments", "expected"), ARGUMENTS.values(), ids=ARGUMENTS.keys())
def test_bad_arguments_are_told_with_a_remedy(tmp_path: Path, arguments: list[str], expected: str) -> None:
    names = {"FILE": str(EXAMPLES / "mixtral-8x22b-mi355x.yaml"), "OUT": str(tmp_path / "out")}
    done = tunewright(*(names.get(argument, argument) for argument in arguments))
    assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr
    assert expected in done.stderr
