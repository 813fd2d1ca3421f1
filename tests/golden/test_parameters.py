"""Parameter totals against published checkpoints: exact integers, one row of the table each."""

import csv
from pathlib import Path

import pytest

from tunewright.domain.catalog_loader import shipped_catalog
from tunewright.domain.parameters import ParameterCounts

TABLE = Path(__file__).parent / "tables" / "parameters.csv"
with TABLE.open(encoding="utf-8") as _lines:
    ROWS = list(csv.DictReader(_lines))


@pytest.mark.parametrize("row", ROWS, ids=[f"{row['preset']}{row['vocabulary_size']}" for row in ROWS])
def test_parameters_equal_the_published_total(row: dict[str, str]) -> None:
    model = shipped_catalog().model(row["preset"])
    if row["vocabulary_size"]:
        model = model.model_copy(update={"vocabulary_size": int(row["vocabulary_size"])})

    counts = ParameterCounts.of(model)

    assert (counts.total, counts.active) == (int(row["total"]), int(row["active"]))


def test_every_model_of_the_catalog_has_a_row_with_a_source() -> None:
    assert {row["preset"] for row in ROWS} == set(shipped_catalog().models)
    assert all(row["source"] for row in ROWS)
