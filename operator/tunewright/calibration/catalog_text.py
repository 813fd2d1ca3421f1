"""A calibration as a block of an accelerator's YAML file. Called by `tunewright calibrate`; pure."""

import re
from collections import Counter
from collections.abc import Sequence

from tunewright.calibration.measured_row import MeasuredRow
from tunewright.domain.hardware import Calibration
from tunewright.performance.uncertainty import kind

_BLOCK = re.compile(r"^calibration:\n(?:  .*\n)+", re.MULTILINE)
_SOURCE = re.compile(r'^  calibration: ".*"$', re.MULTILINE)


def calibration_block(calibration: Calibration) -> str:
    """Return the lines of the `calibration` field."""
    document = calibration.model_dump(by_alias=True)
    measured = ", ".join(document.pop("measured"))
    lines = [f"  {name}: {_number(value)}" for name, value in document.items()] + [f"  measured: [{measured}]"]
    return "calibration:\n" + "".join(f"{line}\n" for line in lines)


def measured_kinds(rows: Sequence[MeasuredRow]) -> tuple[str, ...]:
    """Return the kinds of rows that a fit has seen, sorted: what an interval need not be widened for."""
    found = set()
    for row in rows:
        found.add(kind(row.family))
        if row.config.precision in ("fp8", "mxfp8"):
            found.add(kind(row.family, eight_bit=True))
        found.add(kind(row.family, nodes=row.problem.cluster.nodes))
    return tuple(sorted(found))


def source_line(rows: Sequence[MeasuredRow]) -> str:
    """Return which rows fixed the numbers, by source."""
    counts = Counter(_short(row.source) for row in rows if row.step_seconds)
    named = ", ".join(f"{count} of {source}" for source, count in sorted(counts.items()))
    return f"tunewright calibrate on {sum(counts.values())} measured rows: {named}"


def with_calibration(text: str, calibration: Calibration, source: str) -> str:
    """Return an accelerator's YAML text with its calibration and the calibration's source replaced or added."""
    block = calibration_block(calibration)
    text = _BLOCK.sub(block, text) if _BLOCK.search(text) else text.replace("sources:\n", block + "sources:\n", 1)
    line = f'  calibration: "{source}"'
    return _SOURCE.sub(line, text) if _SOURCE.search(text) else text + line + "\n"


def _number(value: float) -> str:
    """YAML 1.1 reads an exponent only behind a decimal point."""
    return f"{value:.4e}" if 0 < abs(value) < 1e-3 else f"{value:g}"


def _short(source: str) -> str:
    return re.sub(r"^https?://(?:github\.com/)?", "", source).split("/blob/")[0].split("/tree/")[0]
