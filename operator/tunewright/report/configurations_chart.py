"""Every configuration that was tried as a line through its values: parallel coordinates. Called by `page`.

Axes lie across and follow each other downwards, so that a phone shows all of them.
"""

from typing import TYPE_CHECKING

from tunewright.domain.axes import AXES, Axis
from tunewright.domain.training_config import TrainingConfig
from tunewright.planner.candidates import Candidate
from tunewright.report.plotting import CARD, INK, MEASURED, MUTED, PROJECTED, chart
from tunewright.report.story import Story

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SHORT = {
    "interleaved-1f1b": "interl.",
    "zero-bubble-h1": "zb-h1",
    "zero-bubble-h2": "zb-h2",
    "zero-bubble-v": "zb-v",
    "shorter-edges": "short",
    "all-to-all": "a2a",
    "selective": "select.",
    "distributed": "distr.",
    "True": "on",
    "False": "off",
}
_LONGEST = 9
_ROW = 0.5
_BEHIND = {"facecolor": CARD, "edgecolor": "none", "alpha": 0.85, "pad": 0.8}
"""Behind a label, so that lines do not cross it."""
Values = dict[str, float]
"""Place of each value on its axis, from 0 to 1."""


def configurations_chart(story: Story) -> str:
    """Return the chart; empty where no two projected configurations differ."""
    tried, shown = story.evaluation.by_projection, shown_axes(story)
    if not shown:
        return ""
    scales = [_scale(axis, tried) for axis in shown]
    speeds = [item.projected or 0.0 for item in tried]
    low, high = min(speeds), max(speeds)

    def draw(axes: "Axes") -> None:
        rows = list(range(len(shown) + 1))
        for item in reversed(tried):
            share = ((item.projected or 0.0) - low) / max(high - low, 1e-9)
            places = [*_places(item.config, shown, scales), share]
            axes.plot(places, rows, color=PROJECTED, linewidth=1 + share, alpha=0.12 + 0.5 * share)
        _highlight(axes, story, shown, scales, (low, high))
        for row, (axis, scale) in enumerate(zip(shown, scales, strict=True)):
            _label(axes, row, axis.short, scale)
        _label(axes, len(shown), "projected", {f"{low:,.0f}": 0.0, f"{high:,.0f} tokens/s/GPU": 1.0})
        axes.set_ylim(len(shown) + 0.45, -0.3)
        axes.set_xlim(-0.3, 1.06)
        axes.axis("off")

    words = f"{len(tried)} projected configurations over {len(shown)} axes, the faster the stronger the line"
    return chart("configurations", words, 0.5 + _ROW * (len(shown) + 1), draw)


def shown_axes(story: Story) -> list[Axis]:
    """Return the axes in which projected configurations differ."""
    tried = story.evaluation.by_projection
    return [axis for axis in AXES if len({getattr(item.config, axis.field) for item in tried}) > 1]


def _scale(axis: Axis, tried: list[Candidate]) -> Values:
    values = {getattr(item.config, axis.field) for item in tried}
    ordered = axis.kind in ("degree", "switch")
    order = sorted(values) if ordered else sorted(values, key=lambda value: _place_of(axis, value))
    return {_text(value): place / max(len(order) - 1, 1) for place, value in enumerate(order)}


def _place_of(axis: Axis, value: object) -> tuple[int, str]:
    return (axis.choices.index(str(value)) if value in axis.choices else 0, str(value))


def _text(value: object) -> str:
    return "+".join(value) or "none" if isinstance(value, tuple) else str(value)


def _places(config: TrainingConfig, shown: list[Axis], scales: list[Values]) -> list[float]:
    return [scale[_text(getattr(config, axis.field))] for axis, scale in zip(shown, scales, strict=True)]


def _highlight(axes: "Axes", story: Story, shown: list[Axis], scales: list[Values], span: tuple[float, float]) -> None:
    """Draw the baseline dashed and the best strongly, both over all others."""
    rows, (low, high) = list(range(len(shown) + 1)), span
    styles = ((story.evaluation.baseline, INK, (0, (4, 2)), "baseline"), (story.best, MEASURED, "-", "best"))
    for candidate, colour, line, name in styles:
        if candidate is None or candidate.projected is None:
            continue
        share = (candidate.projected - low) / max(high - low, 1e-9)
        places = [*_places(candidate.config, shown, scales), share]
        axes.plot(places, rows, color=colour, linestyle=line, linewidth=2.2, marker="o", markersize=4, label=name)
    axes.figure.legend(loc="outside upper right", ncols=2, labelcolor=INK)


def _label(axes: "Axes", row: int, name: str, scale: Values) -> None:
    axes.plot([0, 1], [row, row], color=MUTED, linewidth=0.7, zorder=0)
    axes.text(-0.07, row, name, ha="right", va="center", fontsize=9, fontweight="bold")
    crowded = len(scale) > 8
    for place, (text, at) in enumerate(scale.items()):
        if crowded and 0 < place < len(scale) - 1 and place % 2:
            continue
        short = text if row and " " in text else _SHORT.get(text, text)
        cut = short if len(short) <= _LONGEST or " " in short else short[: _LONGEST - 1] + "…"
        axes.text(at, row + 0.1, cut, ha=_alignment(at, cut), va="top", fontsize=8, color=INK, bbox=_BEHIND, zorder=6)
        axes.plot([at], [row], marker="|", color=MUTED, markersize=6)


def _alignment(at: float, text: str) -> str:
    return "right" if at == 1.0 and len(text) > _LONGEST else "center"
