"""The recipes of CONTRIBUTING, followed to the letter in a copy of the tree: each thing that is added works."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.docs.blocks import ROOT, Block, blocks

pytestmark = pytest.mark.slow

PAGE = ROOT / "CONTRIBUTING.md"
MIXTRAL = "examples/mixtral-8x22b-mi355x.yaml"
COPIED = ("operator", "trial_runner", "examples", "tests/golden", "crds")


def recipe(title: str) -> list[Block]:
    """Return the blocks between a heading and the next."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    first = lines.index(f"### {title}") + 1
    last = next(number for number in range(first, len(lines)) if re.match("##", lines[number]))
    return [block for block in blocks() if block.page == PAGE and first < block.line <= last and block.mark]


def follow(block: Block, folder: Path) -> None:
    path = folder / block.words
    if block.mark == "file":
        assert not path.exists()
        path.write_text(block.text, encoding="utf-8")
    elif block.mark == "append to":
        between = "\n\n" if path.suffix == ".py" else ""
        path.write_text(path.read_text(encoding="utf-8") + between + block.text, encoding="utf-8")
    else:
        assert block.mark == "edit", block
        lines = block.text.splitlines(keepends=True)
        old = "".join(line[1:] for line in lines if not line.startswith("+"))
        new = "".join(line[1:] for line in lines if not line.startswith("-"))
        text = path.read_text(encoding="utf-8")
        assert text.count(old) == 1, f"{block}: {block.words} has these lines {text.count(old)} times"
        path.write_text(text.replace(old, new), encoding="utf-8")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in COPIED:
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def python(tree: Path, *arguments: str) -> str:
    """Run Python on the copy's packages and return what it printed."""
    path = os.pathsep.join(str(tree / root) for root in ("operator", "trial_runner"))
    environment = {**os.environ, "PYTHONPATH": path, "COLUMNS": "200"}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=tree, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def tunewright(tree: Path, *arguments: str) -> str:
    return python(tree, "-m", "tunewright.entry", *arguments)


def example(tree: Path, **changes: object) -> str:
    """Write the Mixtral example with parts of its spec replaced, and return its path."""
    document = yaml.safe_load((tree / MIXTRAL).read_text(encoding="utf-8"))
    for part in ("baseline", "searchSpace", "reference", "validation"):
        document["spec"].pop(part, None)
    document["spec"] |= changes
    (tree / "run.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")
    return "run.yaml"


def test_a_model_is_added(tree: Path) -> None:
    for block in recipe("Add a model"):
        follow(block, tree)
    workload = {"model": {"preset": "llama-3-1b"}, "sequenceLength": 4096, "globalBatchSize": 512}
    assert "llama-3-1b" in tunewright(tree, "plan", example(tree, workload=workload))
    assert "passed" in python(tree, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/golden/test_parameters.py")


def test_a_device_is_added(tree: Path) -> None:
    for block in recipe("Add a device"):
        follow(block, tree)
    cluster = {"nodes": 16, "gpusPerNode": 4, "accelerator": {"preset": "mi300a"}}
    workload = {"model": {"preset": "llama-3-8b"}, "sequenceLength": 4096, "globalBatchSize": 512}
    plan = json.loads(tunewright(tree, "plan", example(tree, cluster=cluster, workload=workload), "--json"))
    assert plan["candidates"], "some configuration fits"


def test_a_rule_is_added(tree: Path) -> None:
    def broken() -> bool:
        told = json.loads(tunewright(tree, "explain", MIXTRAL, "--set", "mbs=3", "--json"))
        verdicts = {rule["rule"]: rule["ok"] for rule in told["rules"]}
        return "micro-batch-is-power-of-two" in verdicts and not verdicts["micro-batch-is-power-of-two"]

    assert not broken()
    for block in recipe("Add a launch rule"):
        follow(block, tree)
    assert broken()
    page = "from tunewright.legality.catalogue import rule_catalogue; print(rule_catalogue())"
    assert "| `micro-batch-is-power-of-two` | The micro batch is a power of two. | primus |" in python(tree, "-c", page)


def test_a_schedule_is_added(tree: Path) -> None:
    for block in recipe("Add a pipeline schedule"):
        follow(block, tree)
    held = {}
    for schedule in ("1f1b", "gpipe"):
        told = json.loads(tunewright(tree, "explain", MIXTRAL, "--set", f"schedule={schedule}", "--json"))
        held[schedule] = told["memory"]["ranks"][0]["activations"]
    assert held["gpipe"] > 2 * held["1f1b"], "it holds every micro batch"


def test_a_launcher_is_added(tree: Path) -> None:
    for block in recipe("Add a launcher"):
        follow(block, tree)
    tunewright(tree, "run", "examples/quickstart.yaml", "--trials", "simulated", "--out", "out")
    assert json.loads((tree / "out/best.json").read_text(encoding="utf-8"))["pipelineParallelSize"] >= 1
