from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.support.kube_documents import A_RUN
from tunewright.adapters.kube.conditions import TYPES, Wanted, status_of, updated_conditions
from tunewright.adapters.kube.merge_patch import merge_patch
from tunewright.adapters.kube.transitions import transitions

OLD, NOW = "2026-11-30T05:00:00Z", "2026-11-30T06:00:00Z"


def test_every_condition_is_there_from_the_first_write() -> None:
    conditions = updated_conditions([], [Wanted("Accepted", "True", "Valid")], 3, NOW)
    assert [condition["type"] for condition in conditions] == list(TYPES)
    assert {condition["status"] for condition in conditions[1:]} == {"Unknown"}
    assert all(condition["observedGeneration"] == 3 and condition["reason"] for condition in conditions)


def test_the_transition_time_changes_with_the_status_only() -> None:
    before = updated_conditions([], [Wanted("Finished", "False", "Seeding")], 1, OLD)
    same = updated_conditions(before, [Wanted("Finished", "False", "Exploring", "new")], 2, NOW)
    other = updated_conditions(before, [Wanted("Finished", "True", "Converged")], 2, NOW)
    assert _finished(same)["lastTransitionTime"] == OLD
    assert (_finished(same)["reason"], _finished(same)["observedGeneration"]) == ("Exploring", 2)
    assert _finished(other)["lastTransitionTime"] == NOW
    assert status_of(other, "Finished") == "True"
    assert status_of([], "Finished") == "Unknown"


def _finished(conditions: list[dict[str, Any]]) -> dict[str, Any]:
    return next(condition for condition in conditions if condition["type"] == "Finished")


VALUES = st.recursive(
    st.integers() | st.text(max_size=3), lambda inner: st.dictionaries(st.sampled_from("abc"), inner), max_leaves=8
)
DOCUMENTS = st.dictionaries(st.sampled_from("abcd"), VALUES)


def applied(document: Any, patch: Any) -> Any:
    """RFC 7396, section 2."""
    if not isinstance(patch, dict):
        return patch
    result = dict(document) if isinstance(document, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = applied(result.get(key), value)
    return result


@given(DOCUMENTS, DOCUMENTS)
def test_a_patch_turns_one_document_into_the_other(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert applied(before, merge_patch(before, after)) == after


@given(DOCUMENTS)
def test_equal_documents_need_no_patch(document: dict[str, Any]) -> None:
    assert merge_patch(document, document) == {}


def status(state: str, *wanted: Wanted, **more: Any) -> dict[str, Any]:
    return {"state": state, "conditions": updated_conditions([], wanted, 1, NOW), **more}


def reasons(before: dict[str, Any], after: dict[str, Any]) -> list[tuple[str, str]]:
    return [(event["reason"], event["type"]) for event in transitions(A_RUN, before, after, NOW)]


def test_each_transition_is_one_event() -> None:
    refused = status("Pending", Wanted("Accepted", "False", "Illegal", "spec.baseline …"))
    sweeping = status("Sweeping", Wanted("Accepted", "True", "Valid"))
    failed = status("Sweeping", trials={"lastFailure": {"trial": "t0001", "class": "NodeLost", "message": "gone"}})
    assert reasons({}, refused) == [("NotAccepted", "Warning")]
    assert reasons(refused, refused) == []
    assert reasons(refused, sweeping) == [("Sweeping", "Normal")]
    assert reasons(sweeping, failed) == [("TrialFailed", "Warning")]
    assert reasons(failed, failed) == []
    assert reasons(failed, status("Failed")) == [("Failed", "Warning")]


def test_a_run_that_is_held_says_by_what_once_for_each_cause() -> None:
    before = status("Exploring", Wanted("Finished", "False", "Exploring"))
    unreadable = status("Exploring", Wanted("Finished", "False", "LedgerUnreadable", "line 3 was edited"))
    blocked = status("Exploring", Wanted("Finished", "False", "Blocked", "the Job tiny-t0001 is not ours"))
    other = status("Exploring", Wanted("Finished", "False", "Blocked", "the Job tiny-t0002 is not ours"))
    assert reasons(before, unreadable) == [("LedgerUnreadable", "Warning")]
    assert reasons(unreadable, unreadable) == []
    assert reasons(unreadable, blocked) == reasons(blocked, other) == [("Blocked", "Warning")]
    assert reasons(blocked, before) == []


def test_a_run_without_an_llm_is_nothing_to_warn_of() -> None:
    silent = status("Pending", Wanted("AdvisorAvailable", "False", "NotConfigured", "no LLM"))
    down = status("Pending", Wanted("AdvisorAvailable", "False", "Unreachable", "refused"))
    assert reasons({}, silent) == []
    assert reasons(silent, down) == []
    assert reasons({}, down) == [("AdvisorUnavailable", "Warning")]
