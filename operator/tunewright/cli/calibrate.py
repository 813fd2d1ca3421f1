"""`tunewright calibrate DATA.csv...`: the calibrated numbers of the catalog, produced again from measurements."""

import os
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import RenderableType
from rich.table import Table

from tunewright.adapters.catalog import catalog_of
from tunewright.calibration.catalog_text import calibration_block, measured_kinds, source_line, with_calibration
from tunewright.calibration.fitting import Measurements, fit_point
from tunewright.calibration.measured_row import MeasuredRow
from tunewright.calibration.parameters import calibration_of
from tunewright.calibration.reading import format_of, read_rows
from tunewright.calibration.statistics import Errors
from tunewright.calibration.validation import LEFT_OUT, LeftOut, covered, interval_widths, leave_out
from tunewright.cli.accuracy import read_text
from tunewright.cli.console import messages, output, print_json
from tunewright.cli.tables import table, titled
from tunewright.domain.hardware import Calibration
from tunewright.errors import InvalidInput


@dataclass(frozen=True)
class Fitted:
    """The calibration of one accelerator, with errors on the rows that fixed it and on rows that did not."""

    accelerator: str
    rows: Sequence[MeasuredRow]
    calibration: Calibration
    fitted: Errors
    left_out: Sequence[LeftOut]


def run_calibrate(
    paths: Sequence[Path], *, accelerator: str, left_out: str, write: Path | None, json_output: bool
) -> None:
    """Fit every accelerator of the tables; print the numbers, or write them into a folder of accelerator files."""
    if left_out not in ("", *LEFT_OUT):
        raise InvalidInput.of("--leave-out", left_out, f"must be {' or '.join(LEFT_OUT)}")
    rows = _by_accelerator(paths, accelerator)
    fits = [_fit(name, members, left_out) for name, members in sorted(rows.items())]
    if left_out:
        fits = [_with_interval(fit, fits) for fit in fits]
    if write is not None:
        for fit in fits:
            _write(write / f"{fit.accelerator}.yaml", fit)
    if json_output:
        print_json({"accelerators": [_document(fit) for fit in fits]})
    else:
        for fit in fits:
            output.print(f"# {fit.accelerator}: {source_line(fit.rows)}\n{calibration_block(fit.calibration)}")
        output.print(_errors_table(fits))
        if left_out:
            output.print(f"\n80 % interval: {_coverage(fits):.0%} of the left-out rows lie inside")


def _by_accelerator(paths: Sequence[Path], accelerator: str) -> dict[str, list[MeasuredRow]]:
    found: dict[str, list[MeasuredRow]] = defaultdict(list)
    catalog = catalog_of(os.environ)
    for path in paths:
        text = read_text(path)
        for row in read_rows(text, format_of(text), catalog)[0]:
            name = row.problem.cluster.accelerator.name
            if row.step_seconds and accelerator in ("", name):
                found[name].append(row)
    if not found:
        raise InvalidInput.of("DATA", accelerator or "no row", "has no row with a step time for an accelerator")
    return found


def _fit(name: str, rows: Sequence[MeasuredRow], left_out: str) -> Fitted:
    messages.print(f"{name}: {len(rows)} rows")
    measurements = Measurements(rows)
    base = rows[0].problem.cluster.accelerator.calibration
    point = fit_point(measurements, base)
    calibration = calibration_of(point, base).model_copy(update={"measured": measured_kinds(rows)})
    errors = np.abs(np.expm1(measurements.residuals(calibration)))
    unseen = leave_out(measurements, point, left_out) if left_out else []
    return Fitted(name, rows, calibration, Errors.of(errors.tolist()), unseen)


def _with_interval(fit: Fitted, fits: Sequence[Fitted]) -> Fitted:
    everyone = [item for other in fits for item in other.left_out]
    widths = interval_widths(fit.left_out, everyone)
    changes = {f"interval_{family}": width for family, width in widths.items()}
    calibration = fit.calibration.model_copy(update=changes)
    return Fitted(fit.accelerator, fit.rows, calibration, fit.fitted, fit.left_out)


def _write(path: Path, fit: Fitted) -> None:
    text = read_text(path)
    try:
        path.write_text(with_calibration(text, fit.calibration, source_line(fit.rows)), encoding="utf-8")
    except OSError as error:
        raise InvalidInput.of("--write", str(path), f"cannot be written: {error.strerror}") from None


def _document(fit: Fitted) -> dict[str, Any]:
    document: dict[str, Any] = {
        "accelerator": fit.accelerator,
        "rows": len(fit.rows),
        "calibration": fit.calibration.to_json(),
        "source": source_line(fit.rows),
        "fitted": fit.fitted.to_json(),
    }
    if fit.left_out:
        document["leftOut"] = _left_out_errors([fit]).to_json()
        document["leftOutCoverage80"] = _coverage([fit])
        document["leftOutRows"] = [
            {"id": item.row.identity, "ratio": float(np.exp(item.residual))} for item in fit.left_out
        ]
    return document


def _left_out_errors(fits: Sequence[Fitted]) -> Errors:
    return Errors.of([abs(float(np.expm1(item.residual))) for fit in fits for item in fit.left_out])


def _coverage(fits: Sequence[Fitted]) -> float:
    inside = [ok for fit in fits for ok in covered(fit.left_out, fit.calibration)]
    return sum(inside) / len(inside)


def _errors_table(fits: Sequence[Fitted]) -> RenderableType:
    numbers = ("rows", "median", "mean", "90 %", "max")
    made = table("accelerator", *numbers, right=numbers)
    for fit in fits:
        _add(made, f"{fit.accelerator}, fitted", fit.fitted)
        if fit.left_out:
            _add(made, f"{fit.accelerator}, left out", _left_out_errors([fit]))
    if any(fit.left_out for fit in fits):
        _add(made, "all, left out", _left_out_errors(fits))
    return titled("Absolute relative error of step time", made)


def _add(made: Table, label: str, errors: Errors) -> None:
    shares = (errors.median, errors.mean, errors.p90, errors.max)
    made.add_row(label, str(errors.count), *(f"{share:.1%}" for share in shares))
