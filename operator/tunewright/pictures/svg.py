"""The few SVG elements that the pictures are made of. Pure; used by this package only.

Pictures have their own light background, since a page may be light or dark, no script and no font of their own.
Coordinates are rounded to a tenth of a pixel, so that the same figures give the same bytes on every machine.
"""

from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape, quoteattr

COLOURS = ("#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#ff8ab7", "#a463f2", "#97bbf5", "#9c6b4e")
"""Fills that are told apart on white, also by most who do not see all colours."""
GREY, PALE = "#777777", "#dddddd"

Point = tuple[float, float]


class Picture:
    """An SVG document in the making; coordinates are pixels from the top left."""

    def __init__(self, width: float, height: float, title: str) -> None:
        self._size = f'width="{number(width)}" height="{number(height)}"'
        self._box = f'viewBox="0 0 {number(width)} {number(height)}"'
        self._title = title
        self._parts: list[str] = []

    def box(self, corner: Point, size: Point, fill: str, words: str = "") -> None:
        """Draw a filled rectangle; `words` show when the pointer rests on it."""
        place = {"x": corner[0], "y": corner[1], "width": size[0], "height": size[1]}
        self._add("rect", place, f'fill="{fill}"', words)

    def dot(self, centre: Point, radius: float, fill: str, words: str = "") -> None:
        """Draw a filled circle through which others are seen."""
        place = {"cx": centre[0], "cy": centre[1], "r": radius}
        self._add("circle", place, f'fill="{fill}" fill-opacity="0.7"', words)

    def line(self, start: Point, end: Point, colour: str = PALE, style: str = "") -> None:
        """Draw a straight line; `style` is further attributes."""
        place = {"x1": start[0], "y1": start[1], "x2": end[0], "y2": end[1]}
        self._add("line", place, f'stroke="{colour}" {style}'.rstrip())

    def path(self, points: Sequence[Point], colour: str) -> None:
        """Draw a line through points."""
        joined = " ".join(f"{number(x)},{number(y)}" for x, y in points)
        self._parts.append(f'<polyline points="{joined}" fill="none" stroke="{colour}" stroke-width="1.5"/>')

    def text(self, place: Point, words: str, style: str = "") -> None:
        """Write words; `style` is further attributes, such as an anchor."""
        start = f'<text x="{number(place[0])}" y="{number(place[1])}"'
        self._parts.append(f"{start}{' ' + style if style else ''}>{escape(words)}</text>")

    def svg(self) -> str:
        """Return the document."""
        start = f'<svg xmlns="http://www.w3.org/2000/svg" {self._size} {self._box} role="img" aria-label='
        style = ' font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="#ffffff"/>'
        return "\n".join([f"{start}{quoteattr(self._title)}{style}", *self._parts, "</svg>\n"])

    def _add(self, name: str, place: Mapping[str, float], style: str, words: str = "") -> None:
        attributes = " ".join(f'{key}="{number(value)}"' for key, value in place.items())
        end = f"><title>{escape(words)}</title></{name}>" if words else "/>"
        self._parts.append(f"<{name} {attributes} {style}{end}")


def number(value: float) -> str:
    """Return a coordinate with at most one decimal place."""
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def legend(picture: Picture, names: Mapping[str, str], place: Point, step: float) -> None:
    """Draw a row of names, each behind a square of its colour, `step` pixels apart."""
    x, y = place
    for index, (name, colour) in enumerate(names.items()):
        picture.box((x + index * step, y - 10), (10, 10), colour)
        picture.text((x + index * step + 15, y), name)
