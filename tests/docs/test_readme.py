"""The README is short, shows a report, and has no figure of the search that its page does not have."""

import re

from tests.docs.blocks import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
SEARCH_PAGE = (ROOT / "docs/concepts/search.md").read_text(encoding="utf-8")
FIGURE = re.compile(r"\b[01]\.\d{2,4}\b")


def rows(text: str) -> dict[str, set[str]]:
    """Return the cells of all tables' rows by their first cell."""
    found: dict[str, set[str]] = {}
    for line in text.splitlines():
        if line.startswith("|"):
            first, *others = line.strip("| ").split(" | ")
            found.setdefault(first, set()).update(others)
    return found


def section(title: str) -> str:
    return README.split(f"## {title}\n")[1].split("\n## ")[0]


def test_it_is_short_and_its_picture_small() -> None:
    assert len(README.splitlines()) <= 220
    pictures = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", README)
    assert pictures, "a reader sees a report"
    assert all((ROOT / picture).stat().st_size <= 300_000 for picture in pictures)


def test_figures_of_the_search_are_those_of_its_page() -> None:
    shown, page = section("How good the search is"), rows(SEARCH_PAGE)
    compared = {name: cells for name, cells in rows(shown).items() if FIGURE.search("".join(cells))}
    assert len(compared) >= 4
    assert {name: cells - page[name] for name, cells in compared.items() if cells - page[name]} == {}
    assert set(FIGURE.findall(shown)) <= set(FIGURE.findall(SEARCH_PAGE)) | {"0.05"}
