"""The files of the result ConfigMap: what a person takes away from a finished run. Pure; called by the controller."""

import json

from tunewright.backends import RENDERERS
from tunewright.domain.problem import TuningProblem
from tunewright.planner.summary import Summary


def result_files(problem: TuningProblem, summary: Summary) -> dict[str, str]:
    """Return the summary, and the best configuration in the words of each launcher if there is one."""
    files = {"result.json": json.dumps(summary.to_json(), indent=1) + "\n"}
    if summary.winner is not None:
        files |= {name: render(problem, summary.winner) for name, render in RENDERERS.items()}
    return files
