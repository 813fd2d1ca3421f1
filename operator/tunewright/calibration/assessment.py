"""Every measured row with its estimate. Called by `statistics`, `document` and `fitting`."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tunewright.calibration.measured_row import MEMORY_KINDS, MeasuredRow
from tunewright.domain.config_batch import ConfigBatch
from tunewright.memory.estimate import estimate as estimate_memory
from tunewright.memory.fit import fit
from tunewright.performance.step import estimate
from tunewright.performance.uncertainty import interval_half_width


@dataclass(frozen=True)
class AssessedRow:
    """A measurement beside what the model says. Seconds and bytes; None where it does not apply."""

    row: MeasuredRow
    estimated_seconds: float
    low_seconds: float
    high_seconds: float
    estimated_bytes: float | None
    """Of the kind that was measured."""
    fits: bool

    @property
    def ratio(self) -> float:
        """Estimated over measured step time."""
        return self.estimated_seconds / self.row.step_seconds if self.row.step_seconds else float("nan")

    @property
    def error(self) -> float:
        """Absolute relative error of step time."""
        return abs(self.ratio - 1)

    @property
    def is_covered(self) -> bool:
        """Whether the measurement lies in the interval."""
        return self.low_seconds <= (self.row.step_seconds or 0.0) <= self.high_seconds


def assess(rows: Sequence[MeasuredRow]) -> list[AssessedRow]:
    """Estimate every row."""
    return [_assessed(row) for row in rows]


def _assessed(row: MeasuredRow) -> AssessedRow:
    batch = ConfigBatch.of([row.config])
    seconds = float(estimate(row.problem, batch, software=row.software).step_seconds[0])
    width = float(np.exp(interval_half_width(row.problem, batch)[0]))
    memory = estimate_memory(row.problem, batch, software=row.memory_software)
    totals = {
        "allocated": memory.allocated_bytes,
        "reserved": memory.reserved_bytes,
        "device": memory.device_bytes,
        "unstated-paper": memory.allocated_bytes,
    }
    known = row.memory_bytes is not None and row.memory_kind in MEMORY_KINDS
    return AssessedRow(
        row=row,
        estimated_seconds=seconds,
        low_seconds=seconds / width,
        high_seconds=seconds * width,
        estimated_bytes=float(totals[row.memory_kind][0]) if known else None,
        fits=bool(fit(row.problem, memory).fits[0]),
    )
