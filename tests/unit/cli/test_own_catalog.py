"""The guide's own accelerator and network, on the command line and as the operator reads them."""

import json
from pathlib import Path

import pytest
import yaml

from tests.docs.blocks import ROOT, blocks
from tests.unit.cli.test_bad_input import tunewright
from tests.unit.cli.test_commands import answer
from tunewright.adapters.catalog import catalog_of
from tunewright.adapters.kube.client import KubeClient
from tunewright.controller.settings import OperatorSettings
from tunewright.controller.wiring import Wiring
from tunewright.domain.catalog_loader import shipped_catalog

GUIDE = [block for block in blocks() if block.page == ROOT / "docs/guides/own-accelerator.md"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files of the guide, and its variable set."""
    for block in GUIDE:
        if block.mark == "file":
            (tmp_path / block.words).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / block.words).write_text(block.text)
    monkeypatch.chdir(tmp_path)
    (exported,) = [words[1] for block in GUIDE for words in block.commands if words[0] == "export"]
    monkeypatch.setenv(*exported.split("=", 1))
    return tmp_path


@pytest.mark.usefixtures("folder")
def test_the_commands_of_the_guide_take_the_preset() -> None:
    commands = [words for block in GUIDE for words in block.commands if words[0] == "tunewright"]
    assert len(commands) == 2
    for words in commands:
        assert answer(*words[1:])
    plan = json.loads(answer("plan", "run.yaml", "--json"))
    assert plan["candidates"], "some configuration fits"


def test_a_search_records_the_numbers_and_replays_without_the_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = yaml.safe_load((folder / "run.yaml").read_text())
    document["spec"]["budget"] = {"maxTrials": 4}
    (folder / "run.yaml").write_text(yaml.safe_dump(document))
    answer("run", "run.yaml", "--trials", "simulated", "--out", "out")
    header = json.loads((folder / "out/run.jsonl").read_text().splitlines()[0])
    cluster = header["problem"]["cluster"]
    assert (cluster["accelerator"]["name"], cluster["accelerator"]["matmulEfficiency"]) == ("mi355x-1000w", 0.51)
    assert cluster["network"]["name"] == "our-fabric"
    assert header["catalogVersion"] == catalog_of({"TUNEWRIGHT_CATALOG": "catalog"}).version
    assert header["catalogVersion"] != shipped_catalog().version
    monkeypatch.delenv("TUNEWRIGHT_CATALOG")
    assert "nothing that this run uses is different" in answer("replay", "--strict", "out/run.jsonl")


async def test_the_operator_accepts_runs_that_name_the_preset(folder: Path) -> None:
    wiring = Wiring(
        KubeClient.__new__(KubeClient), OperatorSettings(trial_image="trial:1"), {"TUNEWRIGHT_CATALOG": "catalog"}
    )
    run = yaml.safe_load((folder / "run.yaml").read_text())
    run["metadata"]["namespace"] = "team-a"
    accepted = await wiring.accept(run)
    assert accepted.pod_options.pci_device_ids == ("75a3",)
    assert (accepted.device.preset, accepted.device.architecture) == ("mi355x-1000w", "gfx950")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("name: 1", "error: TUNEWRIGHT_CATALOG: accelerators/mi355x-1000w.yaml: name: 1: "),
        (None, "error: TUNEWRIGHT_CATALOG: 'catalog': is no folder: name one with presets of yours, or unset it"),
    ],
)
def test_a_catalog_that_is_wrong_ends_the_command_with_what_to_do(folder: Path, content: str | None, said: str) -> None:
    if content is None:
        (folder / "catalog").rename(folder / "elsewhere")
    else:
        (folder / "catalog/accelerators/mi355x-1000w.yaml").write_text(content)
    done = tunewright("check", "run.yaml")
    assert done.returncode == 2
    assert done.stderr.startswith(said)
    assert "Traceback" not in done.stderr
