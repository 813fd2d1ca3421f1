"""The files of the result ConfigMap: what a person takes away from a finished run. Pure; called by the controller."""

import json

from tunewright.backends import megatron, primus
from tunewright.domain.problem import TuningProblem
from tunewright.planner.summary import Summary

RESULT_FILE = "result.json"
PRIMUS_FILE = "best.primus.yaml"
MEGATRON_FILE = "best.megatron.args"


def result_files(problem: TuningProblem, summary: Summary) -> dict[str, str]:
    """Return the summary, and the best configuration in the words of each launcher if there is one."""
    files = {RESULT_FILE: json.dumps(summary.to_json(), indent=1, sort_keys=True) + "\n"}
    if summary.winner is not None:
        files[PRIMUS_FILE] = primus.render(problem, summary.winner)
        files[MEGATRON_FILE] = megatron.render(problem, summary.winner)
    return files
