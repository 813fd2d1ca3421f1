import io
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from tunewright.cli.app import app
from tunewright.cli.watch import is_true
from tunewright.cli.watch_view import run_line, run_picture

CONFIGURATION = {"tensorParallelSize": 2, "pipelineParallelSize": 4, "microBatchSize": 1, "expertParallelSize": 8}
STATUS: dict[str, Any] = {
    "answer": "projected 4908 tokens/s/GPU",
    "state": "Validating",
    "conditions": [
        {"type": "Accepted", "status": "True", "reason": "Valid", "message": ""},
        {"type": "CapacityAvailable", "status": "False", "reason": "NotEnoughNodes", "message": "1 of 2 nodes [red]"},
    ],
    "forecast": {"gpuHours": "22.50", "durationSeconds": 2700},
    "spent": {
        "gpuHours": "18.20",
        "durationSeconds": 1500,
        "queuedSeconds": 30,
        "llmCalls": 4,
        "llmTokens": 81234,
        "llmCostUSD": "0.8400",
        "gpuHoursSaved": "9.30",
    },
    "trials": {"summary": "26/30", "filtered": 7, "projected": 26, "running": 0},
    "best": {
        "projected": {
            "trial": "t0012",
            "tokensPerSecondPerGPU": 4908,
            "intervalLow": 4310,
            "intervalHigh": 5000,
            "improvementPercent": {"overBaseline": "22.0"},
            "memoryPercent": "91.4",
            "configuration": CONFIGURATION,
        }
    },
    "bias": {"percent": "11.5", "samples": 2},
    "axes": [{"axis": "microBatchSize", "effects": "1 ref, 2 +9.1 ±1.2 projected"}],
    "recentTrials": [
        {"trial": "t0012", "attempt": 1, "kind": "Validation", "phase": "Running", "job": "j", "node": "gpu-3"}
    ],
}


def a_run(**status: Any) -> dict[str, Any]:
    return {"metadata": {"namespace": "team", "name": "mixtral", "generation": 3}, "status": {**STATUS, **status}}


def shown(document: dict[str, Any]) -> str:
    console = Console(width=100, file=io.StringIO())
    with console.capture() as captured:
        console.print(run_picture(document))
    return captured.get()


def test_the_picture_tells_state_answer_best_and_costs_in_a_hundred_columns() -> None:
    text = shown(a_run())
    assert max(map(len, text.splitlines())) <= 100
    said = " ".join(text.split())
    for words in (
        "team/mixtral Validating",
        "projected 4908 tokens/s/GPU",
        "CapacityAvailable=False NotEnoughNodes: 1 of 2 nodes [red]",
        "projected t0012 4,908 4,310–5,000 +22.0 % 91 % tp2 pp4",
        "26/30: 7 filtered, 26 projected",
        "18.20 of 22.50 forecast, 9.30 saved",
        "25 min 0 s of 45 min 0 s forecast, 30 s in queues",
        "4 calls, 81,234 tokens, 0.8400 USD",
        "+11.5 % (2 samples)",
        "t0012 1 Validation Running gpu-3",
    ):
        assert words in said


def test_a_run_that_nobody_has_seen_yet_says_so() -> None:
    bare = {"metadata": {"namespace": "team", "name": "mixtral", "generation": 1}}
    assert "not seen by an operator yet" in shown(bare)
    assert run_line(bare) == "not seen by an operator yet"


def test_an_axis_of_another_version_is_shown_as_it_is() -> None:
    best = {"projected": STATUS["best"]["projected"] | {"configuration": {"gpuClock": 2}}}
    assert "gpuClock 2" in shown(a_run(best=best))


def test_a_line_has_state_trials_and_answer() -> None:
    assert run_line(a_run()) == "Validating: trials 26/30: projected 4908 tokens/s/GPU"


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ({"type": "Finished", "status": "True", "observedGeneration": 3}, True),
        ({"type": "Finished", "status": "True", "observedGeneration": 2}, False),
        ({"type": "Finished", "status": "False", "observedGeneration": 3}, False),
        ({"type": "Succeeded", "status": "True", "observedGeneration": 3}, False),
    ],
    ids=["finished", "reopened", "going-on", "another"],
)
def test_a_run_has_finished_when_its_own_generation_has(condition: dict[str, Any], expected: bool) -> None:
    assert is_true(a_run(conditions=[condition]), "Finished") is expected


def test_a_name_without_its_namespace_is_refused() -> None:
    result = CliRunner().invoke(app, ["watch", "mixtral"])
    assert "must be a namespace and a name" in str(result.exception)
