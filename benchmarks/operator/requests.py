"""API requests per trial of one run, over its first and its second half: the same, if they are linear in trials."""

import math

from benchmarks.operator.figures import Figure
from benchmarks.operator.rig import rig
from benchmarks.operator.runs import large_run
from benchmarks.operator.scrape import Scrape
from tunewright.adapters.kube.client import Document

TRIALS = 400
PARALLEL = 4
TRIAL_SECONDS = 2.0
NAME = "requests"


async def requests(scale: float) -> list[Figure]:
    """Let one run take profiles until it has so many, or finds no more to gain; count at its half and at its end."""
    count = max(8, round(TRIALS * scale))
    marks: list[tuple[int, Scrape]] = []
    async with rig() as here:
        with here.kubelets(1, TRIAL_SECONDS):
            await here.ready()
            await here.until_idle()
            start = here.scrape()

            def look(runs: list[Document]) -> None:
                marks.append((_profiles(runs[0]), here.scrape()))

            await here.create([large_run("long", count, PARALLEL)])
            (run,) = await here.finished(1, look)
    if not _profiles(run):
        raise SystemExit(f"the run took no profile: {run['status']['answer']}")
    return _figures(start, marks)


def _profiles(run: Document) -> int:
    done, _, _ = str(((run.get("status") or {}).get("trials") or {}).get("summary", "0/0")).partition("/")
    return int(done)


def _figures(start: Scrape, marks: list[tuple[int, Scrape]]) -> list[Figure]:
    count, end = marks[-1]
    half, middle = min(marks, key=lambda mark: abs(mark[0] - count / 2))
    whole = end.since(start)
    kinds = whole.by("tunewright_api_requests_total", "method", "resource")
    said = ", ".join(f"{kind} {value / count:.1f}" for kind, value in kinds.items())
    return [
        Figure(NAME, "API requests per trial", _each(whole, count), "", 8, said),
        Figure(NAME, "of the first half", _each(middle.since(start), half), "", None, f"{half} trials"),
        Figure(
            NAME,
            "of the second half",
            _each(end.since(middle), count - half),
            "",
            None,
            f"{count - half} trials: the same, if linear",
        ),
    ]


def _each(scrape: Scrape, count: int) -> float:
    return scrape.total("tunewright_api_requests_total") / count if count else math.nan
