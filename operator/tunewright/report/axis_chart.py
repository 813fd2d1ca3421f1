"""What each value of each axis does to the baseline, as a chart of the axis table. Called by `page`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tunewright.planner.axis_table import AxisEffect, AxisRow
from tunewright.report.plotting import BAD, INK, MUTED, PROJECTED, chart

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_LINES, TALL_LINES = 70, 24
_ROW = 0.235
"""Inches of a line."""

_Line = tuple[str, AxisEffect | None]
"""The label of a line; a heading has no effect."""


def is_tall(rows: Sequence[AxisRow]) -> bool:
    """Tell whether the chart leaves room for two others beside it."""
    return len(_lines(rows)) > TALL_LINES


def axis_chart(rows: Sequence[AxisRow]) -> str:
    """Return the chart; empty where no axis was swept."""
    lines = _lines(rows)
    if not lines:
        return ""

    def draw(axes: "Axes") -> None:
        effects = [effect for _, effect in lines if effect is not None]
        axes.axvline(0, color=MUTED, linewidth=1)
        for place, (_, effect) in enumerate(lines):
            if effect is not None:
                _effect(axes, place, effect)
        axes.set_ylim(len(lines) - 0.4, -0.7)
        axes.set_xlim(*_span(effects))
        axes.set_yticks(range(len(lines)), [label for label, _ in lines], fontsize=9)
        axes.tick_params(axis="y", length=0)
        for text, (_, effect) in zip(axes.get_yticklabels(), lines, strict=True):
            if effect is None:
                text.set(fontweight="bold", color=INK)
        axes.grid(visible=False, axis="y")
        axes.spines["left"].set_visible(False)
        axes.set_xlabel("% over the baseline, ± 1 std. deviation")

    words = f"{len(rows)} axes: effect of each value on the projected throughput of the baseline"
    return chart("axes", words, 0.8 + _ROW * len(lines), draw)


def _lines(rows: Sequence[AxisRow]) -> list[_Line]:
    lines: list[_Line] = []
    for row in rows:
        lines.append((row.axis, None))
        lines += [(effect.value[:18], effect) for effect in row.values]
    more = len(lines) - MOST_LINES
    return lines if more <= 0 else [*lines[:MOST_LINES], (f"… {more} more", None)]


def _effect(axes: "Axes", place: int, effect: AxisEffect) -> None:
    if effect.effect_percent is None:
        said = "the baseline" if effect.kind == "reference" else effect.kind
        axes.plot([0], [place], marker="|", color=MUTED, markersize=8)
        axes.annotate(said, (0, place), (6, 0), textcoords="offset points", va="center", fontsize=8.5, color=MUTED)
        return
    colour = PROJECTED if effect.effect_percent >= 0 else BAD
    axes.barh(place, effect.effect_percent, height=0.62, color=colour, alpha=0.75)
    if effect.plus_minus_percent:
        axes.errorbar(
            effect.effect_percent, place, xerr=effect.plus_minus_percent, color=INK, elinewidth=1, capsize=2, alpha=0.7
        )


def _span(effects: Sequence[AxisEffect]) -> tuple[float, float]:
    """Return ends that hold every bar, with room for words right of zero."""
    ends = [(effect.effect_percent or 0.0, effect.plus_minus_percent or 0.0) for effect in effects]
    low, high = min(at - by for at, by in ends), max(at + by for at, by in ends)
    width = max(high - low, 4.0)
    return min(low, 0.0) - 0.04 * width, max(high, 0.3 * width) + 0.04 * width
