"""The schema that the LLM is shown, and the reading of odd proposals."""

from typing import Any

import pytest

from tunewright.adapters.advisor.answers import Proposal, plain_value, proposal_type, proposed_configs, readable
from tunewright.domain.value import canonical_json


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
    (config,) = proposed_configs([Proposal(reason="", changes={"tp": None, "pp": 2})], wanted=1)
    assert config.changes == {"pp": 2}


def test_no_more_proposals_are_kept_than_were_wanted() -> None:
    many = [Proposal(reason="", changes={"tp": size}) for size in range(100)]
    assert [config.changes["tp"] for config in proposed_configs(many, wanted=3)] == [0, 1, 2]
    assert len(proposed_configs(many, wanted=99)) == 32


@pytest.mark.parametrize(
    "value",
    [float("inf"), float("nan"), 10**400, {"deep": [1]}, [1, {"a": 2}], ["x"] * 1000, "\ud800", "a" * 10_000, 1e300],
)
def test_every_value_can_be_written_into_a_ledger(value: object) -> None:
    (config,) = proposed_configs([Proposal(reason="\x00" * 5000, changes={"x" * 500: value})], wanted=1)
    assert len(canonical_json(config.to_json())) < 1000


@pytest.mark.parametrize("value", [True, 8, 0.5, "1f1b", ["core_attn", "mlp"]])
def test_plain_values_pass_unchanged(value: object) -> None:
    assert plain_value(value) == value
