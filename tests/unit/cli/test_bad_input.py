"""Bad input on the command line: exit code 2, one line for each problem, no traceback."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tunewright.cli.outputs import discard_outputs
from tunewright.cli.yaml_document import read_yaml

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
    "an empty search space": (
        ("spec", "searchSpace"),
        {"pipelineParallelSize": [3]},
        ["spec.searchSpace: {'pipelineParallelSize': [3]}: allows no legal configuration"],
    ),
    "no number at all": (("spec", "cluster", "nodes"), float("nan"), ["spec.cluster.nodes: nan: must be a finite"]),
    "a number without end": (
        ("spec", "budget", "maxGPUHours"),
        float("inf"),
        ["spec.budget.maxGPUHours: inf: must be a finite number"],
    ),
    "a model in a ConfigMap": (
        ("spec", "workload", "model"),
        {"configMapKeyRef": {"name": "x", "key": "config.json"}},
        ["spec.workload.model.configMapKeyRef: 'x/config.json'", "--model-config"],
    ),
    "a number that is text": (("spec", "workload", "globalBatchSize"), "many", ["globalBatchSize", "many"]),
    "a budget of nothing": (("spec", "budget", "maxGPUHours"), 0, ["spec.budget.maxGPUHours", "at least 0.000001"]),
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
    "a superscript for a number": (
        ["explain", "FILE", "--set", "tp=\u00b2"],
        "tensorParallelSize: '\u00b2': must be a",
    ),
    "thousands of digits": (["explain", "FILE", "--set", "tp=" + "9" * 5000], "whole number up to"),
    "superscript node counts": (["plan", "FILE", "--nodes", "\u00b2"], "from 1 to 16384"),
    "endless node counts": (["plan", "FILE", "--nodes", "9" * 5000], "from 1 to 16384"),
    "bad node counts": (["plan", "FILE", "--nodes", "4,x"], "--nodes"),
    "a node count twice": (["plan", "FILE", "--nodes", "4,4"], "--nodes: 4: is given twice: remove one"),
    "an axis twice": (
        ["explain", "FILE", "--set", "tp=2", "--set", "tensor=4"],
        "--set: 'tensor=4': tensorParallelSize is given twice",
    ),
    "an empty folder": (["run", "FILE", "--trials", "simulated", "--out", ""], "--out: '': is empty"),
    "an empty file": (["check", ""], "FILE: '': is empty"),
    "two namespaces in one": (["operator", "--namespace", "A B"], "--namespace: 'A B': must be names"),
    "a run of three parts": (["watch", "a/b/c"], "NAMESPACE/NAME: 'a/b/c': must be a namespace and a name"),
    "a run that no cluster could hold": (["export", "ledger", "Team/run"], "NAMESPACE/NAME: 'Team/run': must be"),
    "an empty file to write": (["export", "ledger", "a/b", "--out", ""], "--out: '': is empty"),
    "a pattern": (["operator", "--namespace", "*"], "--namespace: '*': must be names"),
    "an empty namespace": (["operator", "--namespace", ""], "--namespace: '': must be names"),
    "a namespace twice": (["operator", "--namespace", "a,a"], "--namespace: 'a,a': must be names"),
    "a model's file for a preset": (
        ["plan", "FILE", "--model-config", "config.json"],
        "--model-config: 'config.json': answers spec.workload.model.configMapKeyRef",
    ),
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


def bomb(levels: int) -> str:
    """Ten aliases to the line before, again and again: ten to the power of `levels` values in a few lines."""
    lines = ["a0: &a0 x"]
    lines += [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]" for level in range(1, levels)]
    return "\n".join(lines)


YAML = {
    "aliases that stand for billions": (bomb(10), "stands for more than 50000 values"),
    "a value that holds itself": ("a: &a [*a]", "line 1: a value holds itself"),
    "a key twice": ("a: 1\nb:\n  c: 1\n  c: 2\n", "line 4: key 'c' is given twice"),
    "a date that is none": ("x: 2020-13-45", "is not a known field"),
    "a date": ("x: 2020-10-10", "is not a known field"),
    "a number without end": ("x: " + "9" * 5000, "line 1: '9999"),
    "a word as a number": ('x: !!int "a"', "line 1: 'a' is no int"),
    "bytes": ("x: !!binary aGk=", "is not plain data"),
    "an object": ("x: !!python/object:os.system {}", "is not plain data"),
    "no number at all": ("x: .nan", "x: nan: must be a finite number"),
    "to the base of sixty": ("apiVersion: 8:32", "apiVersion: '8:32'"),
    "a number to the base of sixty": ("x: !!int 8:32", "line 1: '8:32' is no int"),
    "a key that is a list": ("? [1]\n: 2", "a key must be text"),
    "two documents": ("a: 1\n---\nb: 2", "line 3: a second document begins"),
    "nested without end": ("[" * 20_000, "is nested too deeply"),
    "more than a TuningRun": ("#" * (2**20 + 1), "is larger than 1048576 bytes"),
    "control characters": ('"a\\eb": 1', r"a\x1bb"),
}


@pytest.mark.parametrize(("text", "said"), YAML.values(), ids=YAML.keys())
def test_odd_yaml_is_refused_in_short_lines(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(text)
    done = tunewright("check", str(file))
    assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr[-2000:]
    assert said in done.stderr
    assert all(len(line) < 1000 for line in done.stderr.splitlines())


def test_aliases_and_merged_keys_of_a_usual_size_are_read(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("base: &base {a: 1, b: 2020-01-01}\nother: {<<: *base, a: 2}\n")
    assert read_yaml(file) == {"base": {"a": 1, "b": "2020-01-01"}, "other": {"a": 2, "b": "2020-01-01"}}


@pytest.mark.parametrize("text", ["a: 1\n---\n", "---\na: 1\n---\n# the end\n", "---\n---\na: 1\n...\n"])
def test_an_empty_document_beside_the_one_is_no_second(tmp_path: Path, text: str) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(text)
    assert read_yaml(file) == {"a": 1}


def test_times_of_day_are_text(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("a: 8:32\nb: 190:20:30.15\nc: 832\n")
    assert read_yaml(file) == {"a": "8:32", "b": "190:20:30.15", "c": 832}


@pytest.mark.parametrize(
    "section", [{"searchSpace": {"tensorParallelSize": [3]}}, {"baseline": {"tensorParallelSize": 3}}]
)
def test_explain_looks_into_a_run_that_check_refuses(tmp_path: Path, section: dict[str, Any]) -> None:
    document = changed(("spec", *section), next(iter(section.values())))
    file = tmp_path / "run.yaml"
    file.write_text(yaml.safe_dump(document))
    assert tunewright("check", str(file)).returncode == 2
    done = tunewright("explain", str(file), "--set", "tp=3")
    assert (done.returncode, done.stderr) == (0, "")
    assert "tensor-within-node" in done.stdout


def a_file(place: Path) -> None:
    place.write_text("mine")


FOLDERS: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "the folder is a file": ("", a_file, "is not a folder"),
    "the ledger is a folder": ("run.jsonl", Path.mkdir, "is a folder, and the name of a file"),
    "the result is a folder": ("result.json", Path.mkdir, "is a folder, and the name of a file"),
    "trials is a file": ("trials", a_file, "is not a folder"),
}


@pytest.mark.parametrize(("name", "make", "said"), FOLDERS.values(), ids=FOLDERS.keys())
def test_an_odd_folder_is_told_before_anything_runs(
    tmp_path: Path, name: str, make: Callable[[Path], object], said: str
) -> None:
    out = tmp_path / "out"
    if name:
        out.mkdir()
    make(out / name)
    done = tunewright("run", str(EXAMPLES / "quickstart.yaml"), "--trials", "simulated", "--fresh", "--out", str(out))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert done.stderr.startswith("error: --out: ")
    assert said in done.stderr


def test_a_folder_in_a_trial_is_discarded_with_it(tmp_path: Path) -> None:
    (tmp_path / "trials" / "t0001-1" / "deep").mkdir(parents=True)
    (tmp_path / "trials" / "t0002-1").write_text("a file")
    (tmp_path / "notes").write_text("mine")
    discard_outputs(tmp_path)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["notes", "trials"]


EXPORT = ["export", "ledger", "a/b"]
ODD_KUBECONFIGS = [None, "", "just text", "- 1", "clusters: 3", "a: [", "\0"]


@pytest.mark.parametrize(
    ("command", "content"),
    [(["operator"], None), (["operator"], "just text"), *((EXPORT, content) for content in ODD_KUBECONFIGS)],
)
def test_without_a_cluster_one_line_says_so(tmp_path: Path, command: list[str], content: str | None) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    if content is not None:
        kubeconfig.write_text(content)
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "KUBECONFIG": str(kubeconfig)}
    whole = [sys.executable, "-m", "tunewright.entry", *command]
    done = subprocess.run(whole, capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert done.stderr.startswith("error: no cluster: ")
    assert str(kubeconfig) in done.stderr
