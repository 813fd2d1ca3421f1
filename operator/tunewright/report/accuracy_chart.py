"""What was projected beside what was measured, each with its range. Called by `page`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tunewright.planner.candidates import Candidate
from tunewright.report.plotting import INK, MEASURED, PROJECTED, chart
from tunewright.report.story import Story

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ROW = 0.62


def compared_candidates(story: Story) -> list[Candidate]:
    """Return the configurations that were measured, fastest first."""
    measured = [
        (item.measurement.tokens_per_second_per_gpu, item)
        for item in story.evaluation.candidates
        if item.measurement is not None
    ]
    return [item for _, item in sorted(measured, key=lambda pair: -pair[0])]


def accuracy_chart(story: Story) -> str:
    """Return the chart; empty where nothing was measured."""
    candidates = compared_candidates(story)
    if not candidates:
        return ""

    def draw(axes: "Axes") -> None:
        for place, candidate in enumerate(candidates):
            _draw(axes, place, candidate)
        axes.set_yticks(range(len(candidates)), _names(story, candidates))
        axes.set_ylim(len(candidates) - 0.4, -0.6)
        axes.tick_params(axis="y", length=0)
        axes.grid(visible=False, axis="y")
        axes.spines["left"].set_visible(False)
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.margins(x=0.06)
        axes.set_xlabel("tokens/s/GPU")
        axes.figure.legend(loc="outside lower center", ncols=2, labelcolor=INK)

    words = f"projected and measured throughput of {len(candidates)} configurations"
    return chart("accuracy", words, 1.3 + _ROW * len(candidates), draw)


def _names(story: Story, candidates: Sequence[Candidate]) -> list[str]:
    """Name each by the trial that measured it first: two configurations may rest on one profile."""
    named = {story.settings.baseline: "\nbaseline"}
    if story.best is not None:
        named[story.best.config] = "\nbest"
    measured = [item.measurement.trial if item.measurement else item.trial for item in candidates]
    return [f"{trial}{named.get(item.config, '')}" for trial, item in zip(measured, candidates, strict=True)]


def _draw(axes: "Axes", place: int, candidate: Candidate) -> None:
    """Draw the projection above and the measurement below the line's middle."""
    first = place == 0
    if candidate.projected is not None and candidate.interval is not None:
        span = (candidate.interval.low, candidate.interval.high)
        _range(axes, place - 0.13, candidate.projected, span, PROJECTED, "projected" if first else "")
    found = candidate.measurement
    if found is not None:
        span = (found.interval.low, found.interval.high)
        _range(axes, place + 0.13, found.tokens_per_second_per_gpu, span, MEASURED, "measured" if first else "")


def _range(axes: "Axes", y: float, value: float, span: tuple[float, float], colour: str, name: str) -> None:
    axes.plot(span, [y, y], color=colour, linewidth=5, alpha=0.3, solid_capstyle="butt")
    axes.plot([value], [y], marker="o", color=colour, markersize=6, linestyle="none", label=name or "_")
