"""Estimated against measured step times. Called by `tunewright accuracy --plot` and for the documentation."""

import math
from collections.abc import Sequence

from tunewright.calibration.assessment import AssessedRow
from tunewright.calibration.statistics import timed
from tunewright.pictures.svg import COLOURS, GREY, PALE, Picture, Point, legend

_SIZE, _MARGIN = 640, 60
_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 960, 360, 60, 56, 300
_RATIOS = (0.5, 0.7, 1.0, 1.4, 2.0)
_INSIDE, _OUTSIDE = COLOURS[0], "#d62728"


def accuracy_picture(rows: Sequence[AssessedRow]) -> str:
    """Return a log-log scatter plot with 80 % intervals, one colour a device; needs a timed row."""
    chosen = timed(rows)
    axis = _Axis.around([value for row in chosen for value in (row.row.step_seconds or 0.0, row.estimated_seconds)])
    devices = sorted({row.row.device for row in chosen})
    colour = {device: COLOURS[index % len(COLOURS)] for index, device in enumerate(devices)}
    picture = Picture(_SIZE, _SIZE, "Estimated against measured step time")
    _frame(picture, axis)
    for row in chosen:
        measured, fill = row.row.step_seconds or 0.0, colour[row.row.device]
        thin = 'stroke-opacity="0.35"'
        picture.line(axis.point(measured, row.low_seconds), axis.point(measured, row.high_seconds), fill, thin)
        words = f"{row.row.identity} {row.row.model} on {row.row.device}: {row.ratio:.2f}"
        picture.dot(axis.point(measured, row.estimated_seconds), 3.5, fill, words)
    for index, device in enumerate(devices):
        height = _MARGIN + 18 * index
        picture.dot((_MARGIN + 14, height + 12), 5, colour[device])
        picture.text((_MARGIN + 26, height + 16), device)
    return picture.svg()


def interval_picture(rows: Sequence[AssessedRow]) -> str:
    """Return every row's 80 % interval over its measurement, ordered by the estimate's ratio; needs a timed row."""
    chosen = sorted(timed(rows), key=lambda row: row.ratio)
    inside = sum(row.is_covered for row in chosen)
    title = f"Estimate and its 80 % interval over the measurement: {inside} of {len(chosen)} rows inside"
    picture = Picture(_WIDTH, _HEIGHT, title)
    picture.text((_LEFT, 20), title, 'font-weight="bold"')
    legend(picture, {"interval contains the measurement": _INSIDE, "it does not": _OUTSIDE}, (_LEFT, 42), 260)
    for ratio in _RATIOS:
        picture.line((_LEFT, _height(ratio)), (_WIDTH - 20, _height(ratio)), GREY if ratio == 1 else PALE)
        picture.text((_LEFT - 8, _height(ratio) + 4), f"{ratio:g}", 'text-anchor="end"')
    for index, row in enumerate(chosen):
        x, measured = _LEFT + (index + 0.5) * (_WIDTH - _LEFT - 20) / len(chosen), row.row.step_seconds or 1.0
        fill = _INSIDE if row.is_covered else _OUTSIDE
        low, high = _height(row.low_seconds / measured), _height(row.high_seconds / measured)
        picture.line((x, low), (x, high), fill, 'stroke-opacity="0.45" stroke-width="2"')
        picture.dot((x, _height(row.ratio)), 1.8, fill, f"{row.row.identity}: {row.ratio:.2f}")
    picture.text((_LEFT, _HEIGHT - 24), "rows in the order of estimated over measured step time")
    return picture.svg()


def _height(ratio: float) -> float:
    share = math.log(ratio / _RATIOS[0]) / math.log(_RATIOS[-1] / _RATIOS[0])
    return _BOTTOM - (_BOTTOM - _TOP) * min(max(share, 0.0), 1.0)


class _Axis:
    """Powers of ten from `low` to `high`, the same both ways."""

    def __init__(self, low: int, high: int) -> None:
        self.powers = range(low, high + 1)

    @classmethod
    def around(cls, values: Sequence[float]) -> "_Axis":
        low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
        return cls(low, max(high, low + 1))

    def place(self, value: float) -> float:
        share = (math.log10(value) - self.powers[0]) / (self.powers[-1] - self.powers[0])
        return _MARGIN + share * (_SIZE - 2 * _MARGIN)

    def point(self, measured: float, estimated: float) -> Point:
        return self.place(measured), _SIZE - self.place(estimated)


def _frame(picture: Picture, axis: _Axis) -> None:
    start, end = _MARGIN, _SIZE - _MARGIN
    picture.line((start, end), (end, start), GREY, 'stroke-dasharray="4 4"')
    for power in axis.powers:
        place, label = axis.place(10.0**power), f"{10.0**power:g} s"
        picture.line((place, start), (place, end))
        picture.line((start, _SIZE - place), (end, _SIZE - place))
        picture.text((place, end + 18), label, 'text-anchor="middle"')
        picture.text((start - 6, _SIZE - place + 4), label, 'text-anchor="end"')
    picture.text((_SIZE / 2, _SIZE - 12), "measured step", 'text-anchor="middle"')
    turned = f'transform="rotate(-90 14 {_SIZE // 2})" text-anchor="middle"'
    picture.text((14, _SIZE / 2), "estimated step, with its 80 % interval", turned)
