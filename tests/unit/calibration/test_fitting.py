"""A fit finds numbers that explain synthetic measurements, the same ones each time."""

from dataclasses import replace

import numpy as np
import pytest

from tests.unit.calibration.test_reading import used
from tunewright.calibration.catalog_text import calibration_block, with_calibration
from tunewright.calibration.fitting import Measurements, calibrated, fit_calibration, fit_point
from tunewright.calibration.measured_row import MeasuredRow
from tunewright.calibration.parameters import PARAMETERS
from tunewright.calibration.validation import interval_widths, leave_out
from tunewright.domain.config_batch import ConfigBatch
from tunewright.domain.hardware import Calibration
from tunewright.performance.step import estimate

TRUTH = Calibration(sustained_matmul=0.7, attention=0.5, step_overhead_seconds=0.05)


def made(truth: Calibration = TRUTH, **changes: str) -> MeasuredRow:
    row = used(**changes)
    problem = calibrated(row.problem, truth)
    seconds = float(estimate(problem, ConfigBatch.of([row.config]), software=row.software).step_seconds[0])
    return replace(row, step_seconds=seconds, source=f"page of {changes}")


@pytest.fixture(scope="module")
def rows() -> list[MeasuredRow]:
    return [
        made(),
        made(tp="1"),
        made(tp="4"),
        made(pp="4", tp="1", schedule="1f1b"),
        made(seq="2048", gbs="32", mbs="1"),
        made(seq="32768", mbs="1"),
    ]


def test_a_fit_explains_what_a_calibration_made(rows: list[MeasuredRow]) -> None:
    measurements = Measurements(rows)
    before = np.abs(measurements.residuals(Calibration())).max()
    after = np.abs(measurements.residuals(fit_calibration(measurements, Calibration()))).max()
    assert before > 0.1
    assert after < 0.03


def test_the_same_rows_give_the_same_numbers(rows: list[MeasuredRow]) -> None:
    first, second = (fit_calibration(Measurements(rows), Calibration()) for _ in range(2))
    assert first == second


def test_a_number_that_no_row_concerns_stays_where_it_starts(rows: list[MeasuredRow]) -> None:
    fitted = fit_calibration(Measurements(rows), Calibration())
    assert fitted.grouped_matmul == Calibration().grouped_matmul
    assert fitted.fp8_matmul == Calibration().fp8_matmul


def test_no_rows_leave_the_start() -> None:
    assert fit_calibration(Measurements([]), Calibration()) == Calibration()


def test_at_most_a_dozen_numbers_are_fitted() -> None:
    assert len(PARAMETERS) <= 12


def test_rows_are_judged_by_fits_that_did_not_know_them(rows: list[MeasuredRow]) -> None:
    measurements = Measurements(rows)
    left_out = leave_out(measurements, fit_point(measurements, Calibration()), "source")
    assert {item.row.source for item in left_out} == {row.source for row in rows}
    assert max(abs(item.residual) for item in left_out) < 0.1
    widths = interval_widths(left_out, left_out)
    assert widths["dense"] == 0.05
    assert widths["moe"] > 0.1


def test_a_catalog_file_takes_the_new_numbers_and_keeps_the_rest() -> None:
    text = 'name: x\nsources:\n  name: "a page"\n'
    once = with_calibration(text, Calibration(), "3 rows")
    assert once.startswith("name: x\ncalibration:\n")
    assert '  name: "a page"\n' in once
    twice = with_calibration(once, TRUTH, "4 rows")
    assert calibration_block(TRUTH) in twice
    assert '  calibration: "4 rows"' in twice
    assert twice.count("calibration:") == 2
