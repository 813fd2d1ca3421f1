"""Charts as SVG for inside a page: drawn by matplotlib, coloured by the page. Called by the `*_chart` modules.

Colours of `INK` and the like are placeholders that become the page's CSS variables, so that one drawing serves light
and dark. Text stays text: it is readable by search and by screen readers, and takes no glyphs along. Only names that
the project itself makes enter a chart; words of people and of LLMs are for the page, which escapes them.

matplotlib is imported when the first chart is drawn: it takes a second, and not every installation has it.
"""

import io
import re
from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING, Any

from tunewright.errors import TuningError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK, MUTED, GRID, CARD = "#010203", "#010204", "#010205", "#010206"
MEASURED, PROJECTED, ESTIMATED, BAD = "#010207", "#010208", "#010209", "#01020a"
_VARIABLES = {
    INK: "ink",
    MUTED: "muted",
    GRID: "grid",
    CARD: "card",
    MEASURED: "measured",
    PROJECTED: "projected",
    ESTIMATED: "estimated",
    BAD: "bad",
}
WIDTH = 4.7
"""Inches of a chart: on a phone its letters are still ten pixels tall."""

_SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.family": ["DejaVu Sans"],
    "font.size": 10,
    "text.color": INK,
    "axes.edgecolor": GRID,
    "axes.labelcolor": MUTED,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "xtick.color": GRID,
    "ytick.color": GRID,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
}
_NO_METADATA = {"Date": None, "Creator": None, "Format": None, "Type": None}

Draw = Callable[["Axes"], object]


def chart(name: str, words: str, height: float, draw: Draw, width: float = WIDTH) -> str:
    """Return what `draw` draws as an SVG element; `words` say what it shows to those who do not see it.

    `name` is unique on the page, and part of every identifier. Raises `TuningError` where matplotlib is missing.
    """
    try:
        from matplotlib import rc_context
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure
    except ImportError:
        raise TuningError("a report needs matplotlib: pip install 'tunewright[report]'") from None
    text = io.StringIO()
    with rc_context({**_SETTINGS, "svg.hashsalt": name}):
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasSVG(figure)
        draw(figure.add_subplot())
        figure.savefig(text, format="svg", metadata=_NO_METADATA)
    return _for_page(text.getvalue(), name, words)


def _for_page(svg: str, name: str, words: str) -> str:
    """Return the element alone, with the page's colours and font, and identifiers that no other chart has."""
    head = re.search(r"<svg\b[^>]*?viewBox=\"([^\"]*)\"[^>]*>", svg)
    if head is None:
        raise AssertionError("matplotlib wrote no SVG")
    body = svg[head.end() :]
    body = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", body, flags=re.DOTALL)
    body = re.sub(r' id="([^"]*)"', rf' id="{name}-\1"', body)
    body = re.sub(r"url\(#([^)]*)\)", rf"url(#{name}-\1)", body)
    body = re.sub(r'href="#([^"]*)"', rf'href="#{name}-\1"', body)
    body = re.sub(r"; font-family: [^;\"]*", "", body)
    body = re.sub(r"font: (\d+) ([\d.]+px) [^;\"]*", r"font-weight: \1; font-size: \2", body)
    for colour, variable in _VARIABLES.items():
        body = body.replace(colour, f"var(--{variable})")
    links = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    return f'<svg {links} viewBox="{head[1]}" role="img" aria-label="{escape(words)}">{body.strip()}'


def bare(axes: "Axes", *sides: str) -> None:
    """Remove spines and the grid lines that only repeat them."""
    for side in sides:
        axes.spines[side].set_visible(False)
