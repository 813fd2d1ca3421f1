"""The accuracy check as one JSON document. Called by `tunewright accuracy --json` and by the README's table."""

from collections.abc import Sequence
from typing import Any

from tunewright.calibration.assessment import AssessedRow
from tunewright.calibration.measured_row import SkippedRow
from tunewright.calibration.statistics import Errors, coverage, errors_by, memory_errors, ranking, timed

CLASSES = {
    "byDevice": lambda row: row.row.device,
    "byFamily": lambda row: row.row.family,
    "byPrecision": lambda row: row.row.precision,
    "bySchedule": lambda row: row.row.schedule,
    "byScale": lambda row: row.row.scale,
}
"""How errors are broken down: name in the document, class of a row."""


def accuracy_document(rows: Sequence[AssessedRow], skipped: Sequence[SkippedRow]) -> dict[str, Any]:
    """Return counts, errors (fractions of step time), ranking, memory, coverage and every row."""
    chosen, order = timed(rows), ranking(rows)
    return {
        "rows": len(rows) + len(skipped),
        "evaluated": len(chosen),
        "skipped": len(skipped),
        "errors": _without_count(Errors.of([row.error for row in chosen])),
        **{name: _all(errors_by(rows, key)) for name, key in CLASSES.items()},
        "groups": {
            "count": order.count,
            "spearman_mean": order.spearman_mean,
            "regret_mean": order.regret_mean,
            "regret_max": order.regret_max,
        },
        "memory": _all(memory_errors(rows)),
        "falselyRejected": sum(not row.fits for row in rows),
        "coverage80": coverage(rows),
        "detail": [_detail(row) for row in chosen],
        "memoryOnly": [row.row.identity for row in rows if not row.row.step_seconds],
        "skippedRows": [{"id": row.identity, "reason": row.reason} for row in skipped],
    }


def _without_count(errors: Errors) -> dict[str, float]:
    return {name: value for name, value in errors.to_json().items() if name != "count"}


def _all(classes: dict[str, Errors]) -> dict[str, dict[str, float]]:
    return {name: errors.to_json() for name, errors in classes.items()}


def _detail(row: AssessedRow) -> dict[str, Any]:
    detail: dict[str, Any] = {
        "id": row.row.identity,
        "device": row.row.device,
        "model": row.row.model,
        "measured": row.row.step_seconds,
        "estimated": row.estimated_seconds,
        "low": row.low_seconds,
        "high": row.high_seconds,
        "ratio": row.ratio,
        "fits": row.fits,
        "notes": list(row.row.notes),
    }
    if row.estimated_bytes is not None and row.row.memory_bytes:
        detail["measuredBytes"] = row.row.memory_bytes
        detail["estimatedBytes"] = row.estimated_bytes
        detail["memoryKind"] = row.row.memory_kind
    return detail
