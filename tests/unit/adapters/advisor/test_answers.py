"""The schema that the LLM is shown, and the reading of odd proposals."""

from typing import Any

import pytest

from tunewright.adapters.advisor.answers import (
    Answer,
    Proposal,
    StatedHypothesis,
    plain_value,
    proposal_type,
    proposed_configs,
    readable,
    stated_hypotheses,
)
from tunewright.domain.value import canonical_json


def as_it_is(text: str) -> str:
    return text


def a_proposal(changes: dict[str, Any], reason: str = "", hypothesis: int = 0) -> Proposal:
    return Proposal(changes=changes, reason=reason, hypothesis=hypothesis)


def changes_schema(axes: object) -> dict[str, Any]:
    schema: dict[str, Any] = proposal_type(axes).model_json_schema()["properties"]["changes"]
    return schema


def test_the_schema_allows_exactly_the_axes_and_values_of_the_briefing() -> None:
    schema = changes_schema({"tp": [1, 2], "schedule": ["1f1b", "v-min"], "overlap": [True, False]})
    assert schema["properties"] == {
        "tp": {"anyOf": [{"type": "integer", "enum": [1, 2]}, {"type": "null"}]},
        "schedule": {"anyOf": [{"type": "string", "enum": ["1f1b", "v-min"]}, {"type": "null"}]},
        "overlap": {"anyOf": [{"type": "boolean", "enum": [True, False]}, {"type": "null"}]},
    }
    assert schema["required"] == ["tp", "schedule", "overlap"]
    assert schema["additionalProperties"] is False


@pytest.mark.parametrize("axes", [None, {}, ["tp"], {"tp": "12"}, {"tp": []}, {"tp": [{"value": 1}]}])
def test_without_a_usable_axis_table_the_schema_asks_for_pairs(axes: object) -> None:
    schema = changes_schema(axes)
    assert schema["type"] == "array"
    assert schema["items"]["required"] == ["axis", "value"]


@pytest.mark.parametrize(
    ("item", "changes"),
    [
        ({"changes": {"tp": 2}}, {"tp": 2}),
        ({"changes": [{"axis": "tp", "value": 2}]}, {"tp": 2}),
        ({"changes": {"tp": 99, "nonsense": "yes"}, "extra": 1}, {"tp": 99, "nonsense": "yes"}),
        ("use tp=2", {"unreadable": "use tp=2"}),
        ({"tp": 2}, {"unreadable": '{"tp": 2}'}),
        ({"changes": [{"axis": 1, "value": 2}]}, {"unreadable": '{"changes": [{"axis": 1, "value": 2}]}'}),
    ],
)
def test_whatever_was_proposed_reaches_the_planner(item: object, changes: dict[str, Any]) -> None:
    assert Proposal.model_validate(item).changes == changes


def test_an_answer_is_readable_if_one_of_its_items_is() -> None:
    odd, sound = Proposal.model_validate(7), Proposal.model_validate({"changes": {"tp": 2}})
    assert (readable([odd]), readable([odd, sound]), readable([])) == (False, True, False)


def test_axes_left_null_keep_the_value_of_the_incumbent() -> None:
    (config,) = proposed_configs(Answer([a_proposal({"tp": None, "pp": 2})]), 1, as_it_is)
    assert config.changes == {"pp": 2}


def test_no_more_proposals_are_kept_than_were_wanted() -> None:
    many = Answer([a_proposal({"tp": size}) for size in range(100)])
    assert [config.changes["tp"] for config in proposed_configs(many, 3, as_it_is)] == [0, 1, 2]
    assert len(proposed_configs(many, 99, as_it_is)) == 32


@pytest.mark.parametrize(
    "value",
    [float("inf"), float("nan"), 10**400, {"deep": [1]}, [1, {"a": 2}], ["x"] * 1000, "\ud800", "a" * 10_000, 1e300],
)
def test_every_value_can_be_written_into_a_ledger(value: object) -> None:
    (config,) = proposed_configs(Answer([a_proposal({"x" * 500: value}, "\x00" * 5000)]), 1, as_it_is)
    assert len(canonical_json(config.to_json())) < 1000


@pytest.mark.parametrize("value", [True, 8, 0.5, "1f1b", ["core_attn", "mlp"]])
def test_plain_values_pass_unchanged(value: object) -> None:
    assert plain_value(value) == value


@pytest.mark.parametrize(
    "item",
    [
        {"axes": ["tp", "pp"], "mechanism": "halves the bubble", "expected_gain_percent": 4},
        {"axes": "tp", "mechanism": None, "expected_gain_percent": "much"},
        {"axes": [1, None], "mechanism": ["a"], "expected_gain_percent": 1e400},
        "tp and pp together",
        7,
        {},
    ],
)
def test_whatever_was_supposed_can_be_written_into_a_ledger(item: object) -> None:
    answer = Answer([], [StatedHypothesis.model_validate(item)])
    (hypothesis,) = stated_hypotheses(answer, as_it_is)
    assert len(canonical_json(hypothesis.to_json())) < 1000


def test_a_hypothesis_is_kept_with_its_axes_and_its_gain() -> None:
    stated = StatedHypothesis(axes=["tp", "pp"], mechanism="halves the bubble", expected_gain_percent=4)
    (hypothesis,) = stated_hypotheses(Answer([], [stated]), as_it_is)
    assert (hypothesis.axes, hypothesis.mechanism) == (("tp", "pp"), "halves the bubble")
    assert hypothesis.expected_gain_percent == 4


@pytest.mark.parametrize(("said", "kept"), [(1, 1), (2, 0), (-1, 0), ("1", 0), (True, 0), (None, 0)])
def test_a_proposal_names_a_hypothesis_that_was_stated(said: object, kept: int) -> None:
    stated = StatedHypothesis(axes=[], mechanism="", expected_gain_percent=0)
    proposal = Proposal.model_validate({"changes": {"tp": 2}, "hypothesis": said})
    (config,) = proposed_configs(Answer([proposal], [stated]), 1, as_it_is)
    assert config.hypothesis == kept


def test_secrets_are_removed_from_whatever_is_kept() -> None:
    def redact(text: str) -> str:
        return text.replace("sk-secret", "(hidden)")

    stated = StatedHypothesis(axes=["sk-secret"], mechanism="sk-secret", expected_gain_percent=0)
    changes = {"sk-secret": "sk-secret", "list": ["sk-secret"], "deep": {"a": "sk-secret"}}
    answer = Answer([a_proposal(changes, "sk-secret")], [stated])
    kept = canonical_json([item.to_json() for item in proposed_configs(answer, 9, redact)])
    kept += canonical_json([item.to_json() for item in stated_hypotheses(answer, redact)])
    assert "sk-secret" not in kept
    assert kept.count("(hidden)") == 7
