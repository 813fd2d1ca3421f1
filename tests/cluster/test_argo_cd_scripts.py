"""The scripts for Argo CD, run by Argo CD's own command on the test data beside them. Needs no cluster."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.argo_cd_files import CUSTOMIZATIONS, FOLDER
from tests.support.cluster.binaries import ensure_argo_cd_binary
from tests.support.cluster.commands import run
from tests.support.cluster.reporting import or_skip
from tests.support.tuning_run_states import states

Document = dict[str, Any]

HEALTH: list[Document] = yaml.safe_load((CUSTOMIZATIONS / "health_test.yaml").read_text())["tests"]
ACTIONS = CUSTOMIZATIONS / "actions"
OF_ACTIONS: dict[str, list[Document]] = yaml.safe_load((ACTIONS / "action_test.yaml").read_text())
PRINT_SECOND_FILE = """sh -c 'cat "$1"'"""


@pytest.fixture(scope="module")
def argocd() -> Path:
    return or_skip(ensure_argo_cd_binary)


def overrides(argocd: Path, tmp_path: Path, *arguments: str | Path) -> str:
    """Run one of the commands that try out what argocd-cm says about a resource."""
    environment = {
        "HOME": str(tmp_path),
        "TMPDIR": str(tmp_path),
        "KUBECTL_EXTERNAL_DIFF": PRINT_SECOND_FILE,  # of an action's object before and after, show the one after
    }
    settings = ["--argocd-cm-path", str(FOLDER / "argocd-cm.yaml")]
    return run(argocd, "admin", "settings", "resource-overrides", *arguments, *settings, env=environment)


def health(argocd: Path, tmp_path: Path, document: Path) -> tuple[str, str]:
    status, message = overrides(argocd, tmp_path, "health", document).splitlines()
    return status.removeprefix("STATUS: "), message.removeprefix("MESSAGE: ")


@pytest.mark.parametrize("test", HEALTH, ids=lambda test: Path(test["inputPath"]).stem)
def test_health_of_a_run(argocd: Path, tmp_path: Path, test: Document) -> None:
    expected = test["healthStatus"]
    assert health(argocd, tmp_path, CUSTOMIZATIONS / test["inputPath"]) == (expected["status"], expected["message"])


def test_a_run_that_is_being_deleted_is_progressing(argocd: Path, tmp_path: Path) -> None:
    document = states()["failed"]
    document["metadata"]["deletionTimestamp"] = "2026-11-30T06:00:00Z"
    file = tmp_path / "deleted.yaml"
    file.write_text(yaml.safe_dump(document))
    assert health(argocd, tmp_path, file) == ("Progressing", "Pending deletion")


@pytest.mark.parametrize("test", OF_ACTIONS["discoveryTests"], ids=lambda test: Path(test["inputPath"]).stem)
def test_actions_that_a_run_offers(argocd: Path, tmp_path: Path, test: Document) -> None:
    _, *lines = overrides(argocd, tmp_path, "list-actions", ACTIONS / test["inputPath"]).splitlines()
    offered = [{"name": name, "disabled": disabled == "true"} for name, disabled in map(str.split, lines)]
    assert offered == sorted(test["result"], key=lambda action: action["name"])


@pytest.mark.parametrize("test", OF_ACTIONS["actionTests"], ids=lambda test: Path(test["expectedOutputPath"]).stem)
def test_what_an_action_changes(argocd: Path, tmp_path: Path, test: Document) -> None:
    said = overrides(argocd, tmp_path, "run-action", ACTIONS / test["inputPath"], test["action"])
    _, _, changed = said.partition("\n\n")
    assert yaml.safe_load(changed) == yaml.safe_load((ACTIONS / test["expectedOutputPath"]).read_text())
