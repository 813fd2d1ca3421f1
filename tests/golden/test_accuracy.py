"""The model against published measurements, with the calibration that ships: the figures that the project promises.

The rows fixed the calibration, so these bounds are tighter than what unseen rows show; `docs/concepts/accuracy.md` has
both.
"""

from pathlib import Path
from typing import Any

import pytest

from tunewright.calibration.assessment import AssessedRow, assess
from tunewright.calibration.document import accuracy_document
from tunewright.calibration.reading import Format, read_rows
from tunewright.calibration.statistics import Errors, timed
from tunewright.domain.catalog_loader import shipped_catalog

DATA = Path(__file__).parents[1] / "data"


def checked(name: str, table_format: Format) -> tuple[list[AssessedRow], dict[str, Any]]:
    rows, skipped = read_rows((DATA / name).read_text(), table_format, shipped_catalog())
    assessed = assess(rows)
    return assessed, accuracy_document(assessed, skipped)


@pytest.fixture(scope="module")
def published() -> tuple[list[AssessedRow], dict[str, Any]]:
    return checked("published_throughput.csv", "published")


def test_every_scored_row_is_used(published: tuple[list[AssessedRow], dict[str, Any]]) -> None:
    document = published[1]
    assert (document["rows"], document["evaluated"]) == (298, 228)
    assert all(row["reason"].startswith("not scored") for row in document["skippedRows"])


def test_published_rows_are_met(published: tuple[list[AssessedRow], dict[str, Any]]) -> None:
    errors = published[1]["errors"]
    assert errors["median"] < 0.05
    assert errors["p90"] < 0.12


def test_published_amd_rows_are_met(published: tuple[list[AssessedRow], dict[str, Any]]) -> None:
    amd = Errors.of([row.error for row in timed(published[0]) if row.row.device.startswith("MI3")])
    assert amd.count == 10
    assert amd.median < 0.05
    assert amd.p90 < 0.10


def test_schedules_gain_over_1f1b_what_the_zero_bubble_paper_measured(
    published: tuple[list[AssessedRow], dict[str, Any]],
) -> None:
    rows = [row for row in published[0] if row.row.model.endswith("-ZB")]
    plain = {_workload(row): row for row in rows if row.row.schedule == "1f1b"}
    gaps = {}
    for row in rows:
        base = plain[_workload(row)]
        if row is not base:
            measured = (base.row.step_seconds or 0) / (row.row.step_seconds or 1)
            gaps[row.row.identity] = abs(base.estimated_seconds / row.estimated_seconds - measured)
    assert len(gaps) == 18
    assert sum(gap <= 0.04 for gap in gaps.values()) >= 0.9 * len(gaps), gaps


def _workload(row: AssessedRow) -> tuple[str, int]:
    return row.row.model, row.row.problem.global_batch_size


def test_vtrain_single_node_rows_are_met_and_ranked() -> None:
    document = checked("vtrain_single_node.csv", "vtrain")[1]
    assert document["evaluated"] == 464
    assert document["errors"]["mean"] < 0.12
    assert document["groups"]["spearman_mean"] > 0.85


def test_vtrain_multi_node_rows_are_met() -> None:
    document = checked("vtrain_multi_node.csv", "vtrain")[1]
    assert document["evaluated"] == 41
    assert document["errors"]["mean"] < 0.08
    assert document["errors"]["median"] < 0.06
