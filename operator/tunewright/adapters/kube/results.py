"""The files of the result ConfigMap: what a person takes away from a finished run. Called by the controller; pure."""

import gzip
import json
from collections.abc import Sequence

from tunewright.backends import RENDERERS
from tunewright.domain.problem import TuningProblem
from tunewright.planner.records import Record
from tunewright.planner.summary import Summary
from tunewright.report.page import MOST_COMPRESSED_BYTES, render_story
from tunewright.report.story import story_of
from tunewright.search.space import Space

PAGE = "report.html.gz"


def result_files(problem: TuningProblem, summary: Summary) -> dict[str, str]:
    """Return the summary, and the best configuration in the words of each launcher if there is one."""
    files = {"result.json": json.dumps(summary.to_json(), indent=1) + "\n"}
    if summary.winner is not None:
        files |= {name: render(problem, summary.winner) for name, render in RENDERERS.items()}
    return files


def result_page(records: Sequence[Record], space: Space) -> dict[str, bytes]:
    """Return the report of a run, compressed; nothing where it is too large for a ConfigMap.

    The same records give the same bytes. Takes a second or more: call it in a thread. Raises `TuningError` where the
    extra `report` is not installed.
    """
    page = gzip.compress(render_story(story_of(records, space)).encode(), mtime=0)
    return {PAGE: page} if len(page) <= MOST_COMPRESSED_BYTES else {}
