"""How much memory the legal configurations would take, and which of them the limit rules out. Called by `page`."""

from typing import TYPE_CHECKING

import numpy as np

from tunewright.report.plotting import BAD, ESTIMATED, INK, chart
from tunewright.report.story import Story
from tunewright.units import GIB

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BINS = 48
_WIDEST = 3.0
"""Times the limit: what needs more is counted in the last bar."""


def memory_chart(story: Story) -> str:
    """Return the histogram of the whole space; empty where nothing is filtered."""
    limit, sizes = story.memory_limit_bytes, story.space.allocated_bytes
    if story.space.fits.all():
        return ""
    end = min(float(sizes.max()), _WIDEST * limit)
    edges = np.linspace(0.0, end, _BINS + 1)
    shown = np.minimum(sizes, end)

    def draw(axes: "Axes") -> None:
        for rows, colour, name in ((story.space.fits, ESTIMATED, "fits"), (~story.space.fits, BAD, "filtered")):
            counts, _ = np.histogram(shown[rows], edges)
            axes.stairs(counts, edges / GIB, fill=True, color=colour, label=name, alpha=0.8)
        axes.axvline(limit / GIB, color=INK, linewidth=1.2, label="limit")
        axes.set_xlabel("estimated allocation of the worst rank, GiB")
        axes.set_ylabel("configurations")
        axes.yaxis.set_major_formatter("{x:,.0f}")
        axes.figure.legend(loc="outside lower center", ncols=3, labelcolor=INK, handlelength=1.0)

    counts = story.space.counts
    words = f"{counts.filtered} of {counts.legal} legal configurations need more than {limit / GIB:.0f} GiB"
    return chart("memory", words, 3.0, draw)
