"""Estimated against measured step times as an SVG picture. Called by `tunewright accuracy --plot`."""

import math
from collections.abc import Sequence
from xml.sax.saxutils import escape

from tunewright.calibration.assessment import AssessedRow
from tunewright.calibration.statistics import timed

_SIZE, _MARGIN = 640, 60
_COLOURS = ("#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#ff8ab7", "#a463f2", "#97bbf5", "#9c6b4e")


def accuracy_picture(rows: Sequence[AssessedRow]) -> str:
    """Return a log-log scatter plot, one colour a device, the diagonal drawn; needs a timed row."""
    chosen = timed(rows)
    values = [value for row in chosen for value in (row.row.step_seconds or 0.0, row.estimated_seconds)]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    high = max(high, low + 1)
    devices = sorted({row.row.device for row in chosen})
    colour = {device: _COLOURS[index % len(_COLOURS)] for index, device in enumerate(devices)}
    parts = [_frame(low, high)]
    for row in chosen:
        x, y = (_place(value, low, high) for value in (row.row.step_seconds or 0.0, row.estimated_seconds))
        title = f"{row.row.identity} {row.row.model} on {row.row.device}: {row.ratio:.2f}"
        parts.append(
            f'<circle cx="{x:.1f}" cy="{_SIZE - y:.1f}" r="3.5" fill="{colour[row.row.device]}" fill-opacity="0.7">'
            f"<title>{escape(title)}</title></circle>"
        )
    for index, device in enumerate(devices):
        height = _MARGIN + 18 * index
        parts.append(f'<circle cx="{_MARGIN + 14}" cy="{height + 12}" r="5" fill="{colour[device]}"/>')
        parts.append(f'<text x="{_MARGIN + 26}" y="{height + 16}">{escape(device)}</text>')
    return _document(parts)


def _place(value: float, low: int, high: int) -> float:
    return _MARGIN + (math.log10(value) - low) / (high - low) * (_SIZE - 2 * _MARGIN)


def _frame(low: int, high: int) -> str:
    start, end = _MARGIN, _SIZE - _MARGIN
    lines = [f'<line x1="{start}" y1="{end}" x2="{end}" y2="{start}" stroke="#888" stroke-dasharray="4 4"/>']
    for power in range(low, high + 1):
        place = _place(10.0**power, low, high)
        label = f"{10.0**power:g} s"
        lines.append(f'<line x1="{place}" y1="{start}" x2="{place}" y2="{end}" stroke="#ddd"/>')
        lines.append(f'<line x1="{start}" y1="{_SIZE - place}" x2="{end}" y2="{_SIZE - place}" stroke="#ddd"/>')
        lines.append(f'<text x="{place}" y="{end + 18}" text-anchor="middle">{label}</text>')
        lines.append(f'<text x="{start - 6}" y="{_SIZE - place + 4}" text-anchor="end">{label}</text>')
    lines.append(f'<text x="{_SIZE / 2}" y="{_SIZE - 12}" text-anchor="middle">measured step</text>')
    lines.append(f'<text x="14" y="{_SIZE / 2}" transform="rotate(-90 14 {_SIZE / 2})">estimated step</text>')
    return "".join(lines)


def _document(parts: list[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{_SIZE}" height="{_SIZE}" font-family="sans-serif" '
    return f'{head}font-size="12"><rect width="100%" height="100%" fill="white"/>{"".join(parts)}</svg>\n'
