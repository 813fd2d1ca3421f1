"""API requests per trial of one run, over its first and its second half: the same, if they are linear in trials.

Its ledger is written beforehand, with all trials but the baseline's preempted: the operator attempts each again, so
that their number does not rest on when a search ends by itself.
"""

import math

from benchmarks.operator.figures import Figure
from benchmarks.operator.long_run import write_ledger
from benchmarks.operator.rig import rig
from benchmarks.operator.runs import large_run
from benchmarks.operator.scrape import Scrape
from tunewright.adapters.kube.client import Document

TRIALS = 400
PARALLEL = 4
TRIAL_SECONDS = 2.0
NAME = "requests"


async def requests(scale: float) -> list[Figure]:
    """Let one run attempt so many trials; count at its half and at its end, all requests since the operator's start."""
    count = max(8, round(TRIALS * scale))
    marks: list[tuple[int, Scrape]] = []
    async with rig() as here:
        with here.kubelets(1, TRIAL_SECONDS):
            document = large_run("long", count + 1, PARALLEL)
            (run,) = await here.create([document])
            await write_ledger(here, run, document, count + 1, preempted=count)
            await here.ready()

            def look(_: list[Document]) -> None:
                scrape = here.scrape()
                marks.append((int(scrape.total("tunewright_trial_attempts_total")), scrape))

            (finished,) = await here.finished(1, look)
    if not marks[-1][0]:
        raise SystemExit(f"the run attempted nothing: {finished['status']['answer']}")
    return _figures(Scrape({}), marks)


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
