"""docs/images/report.png: the top of a simulated run's report, in Chromium. Called by `make docs-screenshot`.

Not part of `make docs`, which needs no browser.
"""

import asyncio
import io
import tempfile
from pathlib import Path

from PIL import Image

from tests.support.chromium import chromium_path, opened_page
from tunewright.adapters.ledger.file import read_ledger
from tunewright.cli.run import run_search
from tunewright.report.page import render_report

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples/mixtral-8x22b-mi355x.yaml"
PICTURE = ROOT / "docs/images/report.png"
WIDTH, SHOWN_HEIGHT, COLOURS = 1100, 1900, 128


async def taken(page: Path, browser: str) -> bytes:
    """Return the whole page as PNG."""
    async with opened_page(browser) as tab:
        await tab.load(page, width=WIDTH, scheme="light")
        return await tab.screenshot()


def main() -> None:
    """Run the example on the stand-in cluster, and write the picture."""
    browser = chromium_path()
    if browser is None:
        raise SystemExit("no chromium on the PATH (Debian: apt-get install chromium)")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        run_search(EXAMPLE, out, "simulated", None, fresh=False, json_output=True)
        page = out / "report.html"
        page.write_text(render_report(read_ledger(out / "run.jsonl")), encoding="utf-8")
        whole = Image.open(io.BytesIO(asyncio.run(taken(page, browser))))
    top = whole.crop((0, 0, whole.width, min(SHOWN_HEIGHT, whole.height))).convert("RGB")
    top.quantize(COLOURS).save(PICTURE, optimize=True)


if __name__ == "__main__":
    main()
