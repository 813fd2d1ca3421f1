"""`tunewright accuracy DATA.csv`: anyone's measurements against the model."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from rich.console import RenderableType
from rich.table import Table

from tunewright.adapters.catalog import catalog_of
from tunewright.calibration.assessment import AssessedRow, assess
from tunewright.calibration.document import CLASSES, accuracy_document
from tunewright.calibration.measured_row import MeasuredRow, SkippedRow
from tunewright.calibration.reading import Format, read_rows
from tunewright.calibration.statistics import Errors, coverage, errors_by, memory_errors, ranking, timed
from tunewright.cli.console import output, print_json
from tunewright.cli.outputs import write_text
from tunewright.cli.tables import table, titled
from tunewright.errors import InvalidInput
from tunewright.pictures.accuracy import accuracy_picture
from tunewright.units import format_seconds

WORST = 8
_FORMATS = ("published", "vtrain")


def run_accuracy(path: Path, *, table_format: str, json_output: bool, plot: Path | None) -> None:
    """Print how far estimates are from measurements, or write it as JSON."""
    rows, skipped = load_measurements(path, table_format)
    assessed = assess(rows)
    if plot is not None:
        _write_text(plot, assessed)
    if json_output:
        print_json(accuracy_document(assessed, skipped))
    else:
        _print(assessed, skipped)


def load_measurements(path: Path, table_format: str) -> tuple[list[MeasuredRow], list[SkippedRow]]:
    """Read a table of measurements from a file; raises `InvalidInput` for what a person can fix."""
    if table_format not in _FORMATS:
        raise InvalidInput.of("--format", table_format, f"must be {' or '.join(_FORMATS)}")
    return read_rows(read_text(path), cast("Format", table_format), catalog_of(os.environ))


def read_text(path: Path) -> str:
    """Read a file; raise `InvalidInput` with the reason when that fails."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput.of("DATA", str(path), f"cannot be read: {error}") from None


def _write_text(path: Path, rows: Sequence[AssessedRow]) -> None:
    if not timed(rows):
        raise InvalidInput.of("--plot", str(path), "there is no row with a step time to draw")
    write_text(path, accuracy_picture(rows), "--plot")


def _print(rows: Sequence[AssessedRow], skipped: Sequence[SkippedRow]) -> None:
    chosen = timed(rows)
    output.print(f"{len(rows) + len(skipped)} rows: {len(chosen)} with a step time, {len(skipped)} not usable")
    if chosen:
        output.print(_errors_table(rows))
        output.print(_summary(rows))
        output.print(_worst_table(chosen))
    if memory_errors(rows):
        output.print(_memory_table(rows))
    if skipped:
        output.print(_skipped_table(skipped))


def _errors_table(rows: Sequence[AssessedRow]) -> RenderableType:
    made = _table_of_errors("step time")
    _add(made, "all", Errors.of([row.error for row in timed(rows)]))
    for name, key in CLASSES.items():
        made.add_row("")
        for label, errors in errors_by(rows, key).items():
            _add(made, f"{name.removeprefix('by').lower()}: {label}", errors)
    return titled("Absolute relative error of step time", made)


def _memory_table(rows: Sequence[AssessedRow]) -> RenderableType:
    made = _table_of_errors("memory")
    for label, errors in memory_errors(rows).items():
        _add(made, label, errors)
    rejected = [row.row.identity for row in rows if not row.fits]
    made.add_row(f"falsely rejected: {len(rejected)}", *rejected[:4])
    return titled("Absolute relative error of memory, by what was measured", made)


def _table_of_errors(subject: str) -> Table:
    numbers = ("rows", "median", "mean", "90 %", "max")
    return table(subject, *numbers, right=numbers)


def _add(made: Table, label: str, errors: Errors) -> None:
    shares = (errors.median, errors.mean, errors.p90, errors.max)
    made.add_row(label, str(errors.count), *(f"{share:.1%}" for share in shares))


def _summary(rows: Sequence[AssessedRow]) -> str:
    order = ranking(rows)
    lines = [f"\n80 % interval: {coverage(rows):.0%} of the rows lie inside"]
    if order.count:
        lines.append(
            f"{order.count} groups: Spearman {order.spearman_mean:.2f}, the first choice costs "
            f"{order.regret_mean:.1%} on average and {order.regret_max:.1%} at worst"
        )
    return "\n".join(lines)


def _worst_table(rows: Sequence[AssessedRow]) -> RenderableType:
    made = table("row", "model", "device", "measured", "estimated", "ratio", right=("measured", "estimated", "ratio"))
    for row in sorted(rows, key=lambda item: -item.error)[:WORST]:
        made.add_row(
            row.row.identity,
            row.row.model,
            row.row.device,
            format_seconds(row.row.step_seconds or 0.0),
            format_seconds(row.estimated_seconds),
            f"{row.ratio:.2f}",
        )
    return titled("Worst rows", made)


def _skipped_table(skipped: Sequence[SkippedRow]) -> RenderableType:
    reasons: dict[str, list[str]] = {}
    for row in skipped:
        reasons.setdefault(row.reason, []).append(row.identity)
    made = table("rows", "reason", "which", right=("rows",))
    for reason, identities in sorted(reasons.items(), key=lambda item: -len(item[1])):
        shown = ", ".join(identities[:4]) + (" …" if len(identities) > 4 else "")
        made.add_row(str(len(identities)), reason, shown)
    return titled("Not usable", made)
