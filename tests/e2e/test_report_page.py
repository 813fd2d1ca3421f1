"""The report in a real browser: it loads nothing, complains of nothing, fits a phone, and passes axe's checks.

Needs a Chromium on the PATH, and for the accessibility check npm with a registry. Where one is missing, a line says so.
Screenshots are left in the folder that TUNEWRIGHT_SCREENSHOTS names.
"""

import os
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Literal

import pytest

from tests.support.chromium import chromium_path, opened_page
from tests.support.reported import reported_run
from tunewright.report.page import render_report

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

AXE = "axe-core@4.11.0"
VIEWS: list[tuple[int, Literal["light", "dark"]]] = [(375, "light"), (375, "dark"), (1280, "light"), (1280, "dark")]
SCRIPT = "<script>console.log('planted')</script><img src=http://192.0.2.1/x onerror=console.log('planted')>"


@pytest.fixture(scope="module")
def browser() -> str:
    found = chromium_path()
    if found is None:
        pytest.skip("!!! no chromium on the PATH: the report is not looked at (Debian: apt-get install chromium)")
    return found


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("report") / "report.html"
    file.write_text(render_report(reported_run(SCRIPT)), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("axe")
    if shutil.which("npm") is None:
        pytest.skip("!!! no npm on the PATH: accessibility is not checked")
    packed = subprocess.run(["npm", "pack", AXE], cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    if packed.returncode:
        pytest.skip(f"!!! npm pack {AXE} failed, accessibility is not checked: {packed.stderr[-300:]}")
    with tarfile.open(next(folder.glob("*.tgz"))) as archive:
        archive.extractall(folder, filter="data")
    return (folder / "package" / "axe.min.js").read_text(encoding="utf-8")


@pytest.mark.parametrize(("width", "scheme"), VIEWS)
async def test_a_page_shows_itself_without_a_request_or_a_complaint(
    browser: str, page: Path, width: int, scheme: Literal["light", "dark"]
) -> None:
    async with opened_page(browser) as tab:
        await tab.load(page, width=width, scheme=scheme)
        picture = await tab.screenshot()
        assert tab.requests == [page.as_uri()]
        assert tab.complaints == []
        assert await tab.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        colour = await tab.evaluate("getComputedStyle(document.body).backgroundColor")
        assert colour == {"light": "rgb(246, 248, 250)", "dark": "rgb(13, 17, 23)"}[scheme]
        smallest = "Math.min(...[...document.querySelectorAll('figure:not(.wide) svg text')]"
        assert await tab.evaluate(f"{smallest}.map(text => text.getBoundingClientRect().height))") >= 5
    assert picture.startswith(b"\x89PNG")
    if kept := os.environ.get("TUNEWRIGHT_SCREENSHOTS"):
        (Path(kept) / f"report-{width}-{scheme}.png").write_bytes(picture)


@pytest.mark.parametrize(("width", "scheme"), VIEWS)
async def test_a_page_passes_axe(
    browser: str, page: Path, axe: str, width: int, scheme: Literal["light", "dark"]
) -> None:
    async with opened_page(browser) as tab:
        await tab.load(page, width=width, scheme=scheme)
        await tab.evaluate(f"{axe}; undefined")
        found = "axe.run().then(done => done.violations.map(one => [one.id, one.nodes.map(node => node.html)]))"
        assert await tab.evaluate(found) == []
        passed = await tab.evaluate("axe.run().then(done => done.passes.map(one => one.id))")
        assert {"color-contrast", "svg-img-alt", "heading-order", "landmark-one-main"} <= set(passed)
