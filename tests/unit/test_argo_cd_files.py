"""What of charts/argo-cd is made from code is up to date, and its tests know every state that a run can have."""

from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from tests.support.argo_cd_files import ACTIONS, CUSTOMIZATIONS, files
from tunewright.adapters.kube.run_conditions import SuspendedBy
from tunewright.adapters.kube.spec.status import State
from tunewright.adapters.kube.status import BlockedReason
from tunewright.planner.decisions import FinishReason

Document = dict[str, Any]

HEALTH_TESTS: list[Document] = yaml.safe_load((CUSTOMIZATIONS / "health_test.yaml").read_text())["tests"]
TESTED: list[Document] = [yaml.safe_load((CUSTOMIZATIONS / test["inputPath"]).read_text()) for test in HEALTH_TESTS]


def reasons(condition: str, status: str) -> set[str]:
    found = [item for run in TESTED for item in run.get("status", {}).get("conditions", ())]
    return {item["reason"] for item in found if (item["type"], item["status"]) == (condition, status)}


@pytest.mark.parametrize("path", files(), ids=lambda path: path.name)
def test_generated_files_are_what_the_code_writes(path: Path) -> None:
    assert path.read_text() == files()[path], "run make docs"


def test_no_generated_file_is_left_over() -> None:
    found = {path for path in CUSTOMIZATIONS.rglob("testdata/*") if path.is_file()}
    assert found <= files().keys()


def test_health_is_tested_in_every_state() -> None:
    assert {run["status"]["state"] for run in TESTED if "status" in run} == set(get_args(State))


def test_health_is_tested_for_every_reason_of_suspension() -> None:
    assert reasons("Suspended", "True") == set(get_args(SuspendedBy))


def test_health_is_tested_for_every_way_to_finish() -> None:
    assert reasons("Finished", "True") == set(get_args(FinishReason))


def test_health_is_tested_for_every_reason_that_holds_a_run() -> None:
    not_over = reasons("Finished", "False") - set(get_args(State)) - {"NotAccepted"}
    assert not_over == set(get_args(BlockedReason))


def test_health_is_tested_without_a_status_and_for_a_status_that_is_behind() -> None:
    behind = [run["status"]["observedGeneration"] < run["metadata"]["generation"] for run in TESTED if "status" in run]
    assert any("status" not in run for run in TESTED)
    assert any(behind)


def test_every_state_has_its_expectation() -> None:
    inputs = [CUSTOMIZATIONS / test["inputPath"] for test in HEALTH_TESTS]
    assert sorted(inputs) == sorted((CUSTOMIZATIONS / "testdata").iterdir())


def test_every_action_has_a_script_and_a_test() -> None:
    tests = yaml.safe_load((CUSTOMIZATIONS / "actions" / "action_test.yaml").read_text())
    scripts = {path.parent.name for path in (CUSTOMIZATIONS / "actions").glob("*/action.lua")}
    assert scripts == set(ACTIONS) == {test["action"] for test in tests["actionTests"]}
