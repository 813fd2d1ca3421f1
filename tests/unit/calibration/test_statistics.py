"""Errors, ranks, regret and coverage on rows with known ratios."""

from dataclasses import replace

import numpy as np
import pytest

from tests.unit.calibration.test_reading import used
from tunewright.calibration.assessment import AssessedRow
from tunewright.calibration.document import accuracy_document
from tunewright.calibration.measured_row import SkippedRow
from tunewright.calibration.statistics import coverage, ranking, spearman
from tunewright.pictures.accuracy import accuracy_picture


def assessed(measured: float, estimated: float, tensor: int = 1, width: float = 1.1) -> AssessedRow:
    row = used(tp=str(tensor))
    return AssessedRow(
        row=replace(row, step_seconds=measured),
        estimated_seconds=estimated,
        low_seconds=estimated / width,
        high_seconds=estimated * width,
        estimated_bytes=None,
        fits=True,
    )


def test_spearman_takes_the_mean_rank_of_ties() -> None:
    assert spearman(np.array([1.0, 2.0, 3.0]), np.array([10.0, 20.0, 30.0])) == pytest.approx(1)
    assert spearman(np.array([1.0, 2.0, 3.0]), np.array([3.0, 2.0, 1.0])) == pytest.approx(-1)
    assert spearman(np.array([1.0, 1.0, 2.0]), np.array([1.0, 2.0, 3.0])) == pytest.approx(3**0.5 / 2)
    assert spearman(np.array([1.0, 1.0]), np.array([1.0, 2.0])) == 0


def test_regret_is_what_the_first_choice_costs() -> None:
    rows = [assessed(1.0, 1.2, 1), assessed(1.5, 1.0, 2), assessed(2.0, 2.0, 4)]
    found = ranking(rows)
    assert found.count == 1
    assert found.regret_max == pytest.approx(0.5)
    assert found.spearman_mean == pytest.approx(0.5)


def test_two_rows_are_no_group() -> None:
    assert ranking([assessed(1.0, 1.2, 1), assessed(1.5, 1.0, 2)]).count == 0


def test_coverage_counts_rows_inside_their_interval() -> None:
    assert coverage([assessed(1.0, 1.05), assessed(1.0, 1.5)]) == 0.5


def test_the_document_has_the_promised_keys() -> None:
    document = accuracy_document([assessed(1.0, 1.1)], [SkippedRow("b", "no time")])
    assert (document["rows"], document["evaluated"], document["skipped"]) == (2, 1, 1)
    assert set(document["errors"]) == {"median", "mean", "p90", "max"}
    assert document["errors"]["max"] == pytest.approx(0.1)
    assert set(document["groups"]) == {"count", "spearman_mean", "regret_mean", "regret_max"}
    assert {"byDevice", "memory", "falselyRejected", "coverage80", "detail"} <= set(document)
    detail = document["detail"][0]
    assert {"id", "measured", "estimated", "low", "high", "ratio"} <= set(detail)
    assert detail["ratio"] == pytest.approx(1.1)
    assert document["skippedRows"] == [{"id": "b", "reason": "no time"}]


def test_the_picture_has_a_point_for_each_row() -> None:
    picture = accuracy_picture([assessed(1.0, 1.1), assessed(20.0, 19.0)])
    assert picture.startswith("<svg")
    assert picture.count("<title>") == 2
