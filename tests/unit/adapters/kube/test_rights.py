from typing import Any

import pytest

from tunewright.adapters.kube.rights import NEEDED, missing_rights


def review(*rules: dict[str, Any], incomplete: bool = False) -> dict[str, Any]:
    return {"resourceRules": list(rules), "incomplete": incomplete}


def rule(group: str, resource: str, *verbs: str, **more: Any) -> dict[str, Any]:
    return {"apiGroups": [group], "resources": [resource], "verbs": list(verbs), **more}


def all_but(group: str, resource: str, verb: str) -> list[dict[str, Any]]:
    """Return what is needed, without one verb of one resource."""
    return [
        rule(some, kind, *(word for word in verbs if (some, kind, word) != (group, resource, verb)))
        for some, kind, verbs in NEEDED
    ]


EACH = [(group, resource, verb) for group, resource, verbs in NEEDED for verb in verbs]


def test_what_is_needed_is_enough() -> None:
    assert missing_rights(review(*all_but("", "", ""))) == []
    assert missing_rights(review({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]})) == []


@pytest.mark.parametrize(("group", "resource", "verb"), EACH)
def test_each_missing_right_is_named(group: str, resource: str, verb: str) -> None:
    named = f"{verb} {resource}.{group}" if group else f"{verb} {resource}"
    assert missing_rights(review(*all_but(group, resource, verb))) == [named]


def test_a_right_on_named_objects_is_not_one_on_all() -> None:
    rules = [*all_but("batch", "jobs", "get"), rule("batch", "jobs", "get", resourceNames=["tiny"])]
    assert missing_rights(review(*rules)) == ["get jobs.batch"]


def test_a_review_that_does_not_know_everything_says_nothing() -> None:
    assert missing_rights(review(incomplete=True)) == []
