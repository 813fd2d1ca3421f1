"""The generated reference is current, complete, and says of the code what the code does."""

import ast
import re
from collections.abc import Iterator
from typing import get_args

import pytest

from docs.generate.command_line import command_line_page, commands
from docs.generate.conditions import ABOUT, EVENTS, REASONS, STATES
from docs.generate.custom_resource import custom_resource_page
from docs.generate.errors import REACHES
from docs.generate.pages import FOLDER, PAGES
from tests.docs.blocks import ROOT
from tunewright import errors
from tunewright.adapters.advisor.failures import REASONS as ADVISOR_REASONS
from tunewright.adapters.kube.conditions import PENDING, TYPES
from tunewright.adapters.kube.crd import custom_resource_definition
from tunewright.adapters.kube.prewarm import PREWARM_INCOMPLETE, PREWARMED
from tunewright.adapters.kube.run_conditions import SuspendedBy
from tunewright.adapters.kube.spec.status import State
from tunewright.adapters.kube.transitions import _REFUSED
from tunewright.planner.decisions import FinishReason

SOURCES = [
    *sorted((ROOT / "operator/tunewright/adapters").rglob("*.py")),
    *sorted((ROOT / "operator/tunewright/controller").rglob("*.py")),
]
PLACES = {
    "Wanted": 2,
    "Capacity": 1,
    "AdvisorError": 0,
    "NotAccepted": 0,
    "add": 0,
    "attempt": 0,
    "attempt_within": 0,
    "blocked_status": 4,
    "Failure": 0,
}
"""Where in a call the reason of a condition stands."""
REASON = re.compile(r"[A-Z][A-Za-z]+")


@pytest.mark.parametrize("name", sorted(PAGES))
def test_a_page_is_current(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == PAGES[name](), "write it again with `make docs`"


def test_every_command_and_option_has_a_line() -> None:
    page = command_line_page()
    for path, command in commands():
        assert f"## {path.removeprefix('tunewright ')}\n" in page
        for option in (
            name for one in command.params for name in one.opts if name.startswith("--") and name != "--help"
        ):
            assert f"{option}" in page, f"{path} {option}"
    assert len(commands()) >= 18


def test_every_field_of_the_spec_and_the_status_has_a_line() -> None:
    page = custom_resource_page()
    root = custom_resource_definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    for path in (*_paths("spec", root["spec"]), *_paths("status", root["status"])):
        assert f"| `{path.removeprefix('status.')}` |" in page or f"## {path}\n" in page, path


def _paths(path: str, schema: dict[str, object]) -> Iterator[str]:
    properties = schema.get("properties")
    assert isinstance(properties, dict)
    yield from (f"{path}.{name}" for name in properties)


def test_every_state_and_condition_is_explained() -> None:
    assert set(STATES) == set(get_args(State))
    assert set(ABOUT) == set(REASONS) == set(TYPES)
    assert set(EVENTS) == {event for _, event in _REFUSED} | {"TrialFailed", PREWARMED, PREWARM_INCOMPLETE}


def test_every_reason_in_the_code_is_explained() -> None:
    explained = {reason for reasons in REASONS.values() for reason in reasons} | {PENDING}
    found = set(_reasons_in_code())
    assert len(found) > 25, "the scan finds calls"
    assert found - explained == set()


def test_every_explained_reason_is_in_the_code() -> None:
    explained = {reason for reasons in REASONS.values() for reason in reasons}
    others = {*get_args(FinishReason), *get_args(State), *get_args(SuspendedBy)}
    others |= {reason for _, reason, _ in ADVISOR_REASONS}
    assert explained - others - set(_texts_in_code()) == set()


def _reasons_in_code() -> Iterator[str]:
    for source in SOURCES:
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                yield from _reasons_of(node)
    yield from (reason for _, reason, _ in ADVISOR_REASONS)
    yield from get_args(FinishReason)


def _reasons_of(call: ast.Call) -> Iterator[str]:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    place = PLACES.get(name)
    given = call.args[place : place + 1] if place is not None else []
    for node in (inner for argument in given for inner in ast.walk(argument)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and REASON.fullmatch(node.value):
            yield node.value


def _texts_in_code() -> Iterator[str]:
    for source in SOURCES:
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def test_every_error_of_ours_reaches_somebody() -> None:
    ours = {
        name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, errors.TuningError)
    }
    assert set(REACHES) == ours
