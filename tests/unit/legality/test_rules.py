"""One row per rule: the smallest configuration that breaks exactly this rule, and its legal neighbour."""

import pytest

from tests.unit.legality import rows_of_backends, rows_of_experts, rows_of_groups, rows_of_pipelines, rows_of_training
from tests.unit.legality.rows import Row
from tunewright.domain.config_batch import ConfigBatch
from tunewright.domain.training_config import TrainingConfig
from tunewright.legality import RULES, judge

TABLES = (rows_of_groups, rows_of_pipelines, rows_of_training, rows_of_experts, rows_of_backends)
ROWS = [row for table in TABLES for row in table.ROWS]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_broken_configuration_breaks_exactly_its_rule(row: Row) -> None:
    verdicts = judge(row.problem, ConfigBatch.of([row.config(row.broken)]))

    assert list(verdicts.violations(0)) == [row.rule]
    assert not verdicts.legal[0]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_neighbour_is_legal(row: Row) -> None:
    verdicts = judge(row.legal_problem or row.problem, ConfigBatch.of([row.config(row.legal)]))

    assert verdicts.violations(0) == {}
    assert verdicts.legal[0]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_message_names_a_field_of_the_configuration_or_the_problem(row: Row) -> None:
    (message,) = judge(row.problem, ConfigBatch.of([row.config(row.broken)])).violations(0).values()
    fields = [field.alias or name for name, field in TrainingConfig.model_fields.items()]

    assert message.split()[0] in [*fields, "sequenceLength", "model"]


def test_every_rule_of_every_backend_has_a_row() -> None:
    assert {rule.name for rules in RULES.values() for rule in rules} == {row.rule for row in ROWS}


def test_rule_names_are_unique_within_a_backend() -> None:
    for rules in RULES.values():
        names = [rule.name for rule in rules]
        assert len(names) == len(set(names))
