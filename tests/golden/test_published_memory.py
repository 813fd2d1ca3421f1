"""Published measurements of memory, by kind, and the runs that must not be filtered."""

from pathlib import Path

import numpy as np
import pytest

from tunewright.calibration.assessment import AssessedRow, assess
from tunewright.calibration.reading import read_rows
from tunewright.calibration.statistics import memory_errors
from tunewright.domain.catalog_loader import shipped_catalog

TABLE = Path(__file__).parents[1] / "data" / "published_throughput.csv"


@pytest.fixture(scope="module")
def assessed() -> list[AssessedRow]:
    used, _ = read_rows(TABLE.read_text(encoding="utf-8"), "published", shipped_catalog())
    return assess(used)


@pytest.mark.parametrize(
    ("kind", "rows", "median", "ninetieth"),
    [
        ("allocated", 28, 0.01, 0.03),
        ("reserved", 12, 0.03, 0.06),
        ("device", 11, 0.02, 0.05),
        ("unstated-paper", 24, 0.03, 0.05),
    ],
)
def test_errors_of_each_kind_stay_where_they_are(
    assessed: list[AssessedRow], kind: str, rows: int, median: float, ninetieth: float
) -> None:
    errors = memory_errors(assessed)[kind]
    assert errors.count == rows
    assert errors.median <= median
    assert errors.p90 <= ninetieth


def test_no_published_run_is_filtered(assessed: list[AssessedRow]) -> None:
    assert len(assessed) > 200
    assert [row.row.identity for row in assessed if not row.fits] == []


def test_ratios_between_schedules_are_those_of_the_zero_bubble_paper(assessed: list[AssessedRow]) -> None:
    groups: dict[tuple[str, int], dict[str, tuple[float, float]]] = {}
    for found in assessed:
        if found.row.memory_kind == "unstated-paper":
            assert found.estimated_bytes and found.row.memory_bytes
            group = groups.setdefault((found.row.model, found.row.problem.global_batch_size), {})
            group[found.row.schedule] = (found.estimated_bytes, found.row.memory_bytes)
    differences = [
        estimated / group["1f1b"][0] - measured / group["1f1b"][1]
        for group in groups.values()
        for estimated, measured in group.values()
    ]
    assert len(differences) == 24
    assert np.abs(differences).max() <= 0.05


def test_each_published_cell_of_deepseek_v2_lite_on_mi355x_is_within_five_percent(assessed: list[AssessedRow]) -> None:
    cells = [found for found in assessed if found.row.model == "DeepSeek-V2-Lite" and found.row.device == "MI355X"]
    ratios = [(found.estimated_bytes or 0.0) / (found.row.memory_bytes or 1.0) for found in cells]
    assert len(cells) == 10
    assert np.abs(np.array(ratios) - 1).max() <= 0.05
