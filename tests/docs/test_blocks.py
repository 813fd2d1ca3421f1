"""Every command and every example of README and docs: executed, or marked with who executes it or why nobody does."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from typer.testing import CliRunner

from docs.generate.command_line import commands
from tests.docs.blocks import LANGUAGES, ROOT, Block, blocks
from tests.unit.cli.test_bad_input import tunewright
from tunewright.adapters.kube.acceptance import accept
from tunewright.adapters.kube.spec.tuning_run import API_VERSION, KIND
from tunewright.backends import megatron
from tunewright.cli.app import app
from tunewright.cli.export import run_export_best
from tunewright.cli.loading import load_candidate
from tunewright.domain.catalog_loader import shipped_catalog

COMMANDS = blocks("sh")
RUN = [block for block in COMMANDS if not block.mark]
IN_TREE = re.compile(r"^(examples|charts|crds|tests|docs|benchmarks)/[\w./-]+$")
SMALLEST = {"model": {"preset": "llama-3-8b"}, "sequenceLength": 4096, "globalBatchSize": 256}
MINIMAL: dict[str, Any] = {
    "workload": SMALLEST,
    "cluster": {"nodes": 8, "accelerator": {"preset": "mi355x"}},
}


def named(block: Block) -> str:
    return str(block)


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what readers have by the time they type a command: examples, a ledger, files of their own."""
    folder = tmp_path_factory.mktemp("reader")
    for name in ("examples", "tests"):
        (folder / name).symlink_to(ROOT / name)
    (folder / ".venv").symlink_to(sys.prefix)
    done = tunewright(
        "run", str(ROOT / "examples/mixtral-8x22b-mi355x.yaml"), "--trials", "simulated", "--out", str(folder)
    )
    assert done.returncode == 0, done.stderr
    for name in ("quickstart", "mixtral", "earlier"):
        (folder / "runs" / name).mkdir(parents=True)
        shutil.copy(folder / "run.jsonl", folder / "runs" / name / "run.jsonl")
    run_export_best(folder / "run.jsonl", folder / "exported")
    shutil.copy(folder / "exported/best-primus.yaml", folder / "experiment.yaml")
    problem, baseline = load_candidate(ROOT / "examples/mixtral-8x22b-mi355x.yaml")
    (folder / "arguments.txt").write_text(megatron.render(problem, baseline), encoding="utf-8")
    guide = (ROOT / "docs/guides/own-model.md").read_text(encoding="utf-8")
    for language, name in (("yaml", "own-model.yaml"), ("json", "config.json")):
        example = re.search(rf"```{language}\n(.*?)```", guide, re.DOTALL)
        assert example is not None
        (folder / name).write_text(example[1], encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def have_run() -> set[str]:
    """Arguments of the commands that have run: pages repeat some, and each runs once."""
    return set()


@pytest.mark.slow
@pytest.mark.parametrize("block", RUN, ids=named)
def test_commands_run(block: Block, scratch: Path, have_run: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(scratch)
    for words in block.commands:
        assert Path(words[0]).name == "tunewright", f"{block}: {words[0]}: mark the block with who runs it, or why not"
        arguments = shlex.join(words[1:])
        if arguments not in have_run:
            done = CliRunner().invoke(app, words[1:])
            assert done.exit_code == 0, f"{block}: {arguments}\n{done.output}\n{done.exception!r}"
        have_run.add(arguments)


@pytest.mark.parametrize("block", [block for block in COMMANDS if block.mark], ids=named)
def test_commands_that_are_not_run_say_why_and_are_shell(block: Block) -> None:
    assert block.mark in ("run by", "not run"), block
    assert block.words, f"{block}: who runs it, or why does nobody?"
    if block.mark == "run by":
        assert all((ROOT / path).is_file() for path in block.words.split(", ")), block.words
    done = subprocess.run(["bash", "-n"], input=block.text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{block}: {done.stderr}"


@pytest.mark.parametrize("block", [*COMMANDS, *blocks("indented")], ids=named)
def test_commands_name_options_targets_and_files_that_exist(block: Block) -> None:
    known = {path: {name for one in command.params for name in one.opts} for path, command in commands()}
    for words in block.commands:
        missing = [word for word in words if IN_TREE.match(word) and not (ROOT / word.rstrip("/")).exists()]
        assert missing == [], block
        if words[0] == "make":
            targets = re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
            assert {word for word in words[1:] if "=" not in word} <= set(targets), block
        if Path(words[0]).name == "tunewright":
            called = max((path for path in known if _starts(words, path)), key=len, default=None)
            assert called, f"{block}: {' '.join(words)}"
            options = {word.split("=")[0] for word in words if word.startswith("-")}
            assert options <= known[called] | {"--help"}, f"{block}: {' '.join(words)}"


def _starts(words: list[str], path: str) -> bool:
    parts = path.split()
    return ["tunewright", *words[1 : len(parts)]] == parts


@pytest.mark.parametrize("block", blocks("yaml"), ids=named)
def test_examples_in_yaml_are_accepted(block: Block, scratch: Path) -> None:
    for document in yaml.safe_load_all(block.text):
        if block.mark in ("other YAML", "file"):
            assert block.words, f"{block}: what is it?"
        elif block.mark == "chart values":
            jsonschema.validate(_merged(_chart("values.yaml"), document), _chart("values.schema.json"))
        else:
            accept(_whole(document), shipped_catalog(), config_maps=_config_maps(scratch))


def _whole(document: dict[str, Any]) -> dict[str, Any]:
    """Complete a part of a TuningRun with the least that a run needs."""
    run = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "example"}, "spec": {}, **document}
    metadata = {"name": "example", **run["metadata"]}
    return {**run, "metadata": metadata, "spec": {**MINIMAL, **run["spec"]}}


def _config_maps(scratch: Path) -> dict[tuple[str, str], str]:
    return {("own-model", "config.json"): (scratch / "config.json").read_text(encoding="utf-8")}


def _chart(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / "charts/tunewright" / name).read_text(encoding="utf-8"))
    return found


def _merged(shipped: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Lay values over others as Helm does: objects key by key, everything else as a whole."""
    both = {key: _merged(shipped[key], given[key]) for key in given if isinstance(shipped.get(key), dict)}
    return {**shipped, **given, **both}


@pytest.mark.parametrize("block", blocks("json"), ids=named)
def test_examples_in_json_are_json(block: Block) -> None:
    json.loads(block.text)


def test_every_block_names_its_language() -> None:
    assert [str(block) for block in blocks() if block.language not in LANGUAGES] == []


def test_most_commands_are_executed() -> None:
    assert len(RUN) >= 12, "what can run on a laptop should not be marked away"
