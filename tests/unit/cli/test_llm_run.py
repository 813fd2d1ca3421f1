"""A whole search that asks an LLM over HTTP: a real server that speaks the OpenAI protocol from a script."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.openai_server import SILENCE, Step, completion, proposals, refusal, serving
from tests.unit.cli.test_bad_input import EXAMPLES, tunewright
from tunewright.adapters.ledger.file import read_ledger
from tunewright.planner.decisions import Judge, StartTrial
from tunewright.planner.records import Advice, Record, Round

pytestmark = pytest.mark.slow

GOOD = proposals({"pp": 8, "ep": 8, "mbs": 1, "schedule": "zero-bubble-h1"}, {"tp": 7}, {"wheels": 4})
FAULTS: dict[str, Step] = {
    "nonsense": completion("I would rather talk about the weather."),
    "429": refusal(429),
    "500": refusal(500),
    "silence": SILENCE,
}


def searched(out: Path, script: tuple[Step, ...], monkeypatch: pytest.MonkeyPatch) -> tuple[dict[str, Any], str]:
    document = yaml.safe_load((EXAMPLES / "mixtral-8x22b-mi355x.yaml").read_text())
    document["spec"]["explore"] = {"strategy": "LLM", "patience": 2}
    file = out / "run.yaml"
    monkeypatch.setenv("TUNEWRIGHT_LLM_API_KEY", "sk-secret-of-the-test")
    with serving(*script) as server:
        document["spec"]["llm"] = {
            "model": "openai/scripted",
            "apiBase": server.api_base,
            "apiKeySecretRef": {"name": "llm", "key": "apiKey"},
            "timeoutSeconds": 2,
        }
        file.write_text(yaml.safe_dump(document))
        done = tunewright("run", str(file), "--trials", "simulated", "--out", str(out / "run"))
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads((out / "run" / "result.json").read_text())
    written = "".join(path.read_text() for path in (out / "run").iterdir() if path.is_file())
    assert "sk-secret-of-the-test" not in written + done.stdout + done.stderr
    return result, done.stderr


def judged_by_llm(records: list[Record]) -> list[Judge | StartTrial]:
    decisions = [decision for record in records if isinstance(record, Round) for decision in record.decisions]
    return [d for d in decisions if isinstance(d, Judge | StartTrial) and d.origin.proposed_by == "llm"]


def test_proposals_of_the_llm_are_judged_and_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result, _ = searched(tmp_path, (GOOD,) * 8, monkeypatch)
    records = read_ledger(tmp_path / "run" / "run.jsonl")
    answers = [record for record in records if isinstance(record, Advice)]
    assert answers and all(answer.outcome == "answered" for answer in answers)
    verdicts = {d.verdict if isinstance(d, Judge) else "tried" for d in judged_by_llm(records)}
    assert {"unreadable"} <= verdicts
    assert verdicts & {"illegal", "outside"}
    assert verdicts & {"tried", "reused", "duplicate"}
    assert result["advisor"]["available"] is True
    assert result["spent"]["llmCalls"] > 0
    assert tunewright("replay", str(tmp_path / "run" / "run.jsonl")).stdout.startswith("identical")


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
def test_without_a_usable_answer_the_surrogate_finishes_the_run_and_the_result_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Step
) -> None:
    result, _ = searched(tmp_path, (fault,) * 40, monkeypatch)
    assert result["state"] == "Succeeded"
    assert result["advisor"]["available"] is False
    assert result["advisor"]["reason"]
    assert result["bestMeasured"]["tokensPerSecondPerGPU"] > 0
    assert tunewright("replay", str(tmp_path / "run" / "run.jsonl")).stdout.startswith("identical")
