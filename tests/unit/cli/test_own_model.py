"""The guide's own model: a Hugging Face file in the place of the ConfigMap, for every command that takes a FILE."""

import json
import re
from pathlib import Path

import pytest

from tests.unit.cli.test_bad_input import EXAMPLES, tunewright
from tests.unit.cli.test_commands import answer

GUIDE = (EXAMPLES.parent / "docs/guides/own-model.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """FILE and --model-config, as the guide has them."""
    (tmp_path / "own-model.yaml").write_text(blocks("yaml")[0])
    (tmp_path / "config.json").write_text(blocks("json")[0])
    return [str(tmp_path / "own-model.yaml"), "--model-config", str(tmp_path / "config.json")]


def test_the_model_of_the_file_is_planned(files: list[str]) -> None:
    assert "own-model on 2 × 8 mi355x" in answer("plan", *files)
    plan = json.loads(answer("plan", *files, "--json"))
    assert plan["candidates"][0]["memory"]["allocatedBytes"] > 0


def test_check_and_explain_take_it_too(files: list[str]) -> None:
    assert "valid; " in answer("check", *files)
    document = json.loads(answer("explain", *files, "--set", "tp=5", "--json"))
    broken = {rule["rule"]: rule["message"] for rule in document["rules"] if not rule["ok"]}
    assert "24" in broken["tensor-divides-heads"]


def test_a_whole_search_takes_it_and_keeps_the_architecture(files: list[str], tmp_path: Path) -> None:
    answer("run", *files, "--trials", "simulated", "--out", str(tmp_path / "out"))
    header = json.loads((tmp_path / "out/run.jsonl").read_text().splitlines()[0])
    model = header["problem"]["model"]
    assert (model["name"], model["numLayers"], model["hiddenSize"], model["tiedEmbeddings"]) == (
        "own-model",
        28,
        3072,
        True,
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "--model-config: "),
        ("{", "spec.workload.model.configMapKeyRef: '{': is not JSON"),
        ("{}", "spec.workload.model.configMapKeyRef (model_type): None: is required"),
    ],
)
def test_an_odd_file_is_told(files: list[str], content: str | None, said: str) -> None:
    path = Path(files[-1])
    path.unlink() if content is None else path.write_text(content)
    done = tunewright("plan", *files)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert done.stderr.startswith(f"error: {said}")
