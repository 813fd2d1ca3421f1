"""The site of docs/ builds strictly, and loads nothing from elsewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs.generate.links import inside_only
from tests.docs.blocks import ROOT

LOADED = re.compile(r"<(?:script|img|iframe|source|link)\b[^>]*\b(?:src|href)=[\"']?(?:https?:)?//[^>]*>")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [Path(sys.executable).with_name("mkdocs"), "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_every_page_is_built_and_found(site: Path) -> None:
    pages = {path.relative_to(ROOT / "docs").with_suffix("") for path in (ROOT / "docs").rglob("*.md")}
    for page in pages:
        built = page.parent if page.name in ("index", "README") else page
        assert (site / built / "index.html").is_file(), page
    assert "support-bundle" in (site / "search/search_index.json").read_text(encoding="utf-8")


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        assert LOADED.search(page.read_text(encoding="utf-8")) is None, page
    assert list(site.rglob("*.py")) == [], "sources of generators are no part of the site"


def test_links_out_of_the_docs_are_paths_on_the_site(site: Path) -> None:
    page = (site / "concepts/accuracy/index.html").read_text(encoding="utf-8")
    assert "<code>tests/data/README.md</code>" in page
    assert "../../tests/data/README.md" not in page


@pytest.mark.parametrize(
    ("link", "shown"),
    [
        ("[data](../../tests/data/README.md)", "data (`tests/data/README.md`)"),
        ("[`Makefile`](../../Makefile)", "`Makefile`"),
        ("[rules](../reference/rules.md#groups)", "[rules](../reference/rules.md#groups)"),
        ("[site](https://example.com/../x)", "[site](https://example.com/../x)"),
    ],
)
def test_only_links_that_leave_the_docs_become_paths(link: str, shown: str) -> None:
    assert inside_only(link, "concepts/accuracy.md") == shown
