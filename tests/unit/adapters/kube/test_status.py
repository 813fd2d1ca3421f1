import gzip
from dataclasses import replace
from typing import Any

import pytest

from tests.support.kube_documents import A_RUN, a_job, a_pod, an_identity
from tests.support.records import AT, a_header
from tests.support.reported import reported_run
from tunewright.adapters.kube import results
from tunewright.adapters.kube.attempts import view_attempt
from tunewright.adapters.kube.inventory import Capacity
from tunewright.adapters.kube.labels import SUSPEND
from tunewright.adapters.kube.results import PAGE, result_files, result_page
from tunewright.adapters.kube.run_conditions import suspended_by
from tunewright.adapters.kube.spec.status import TuningRunStatus
from tunewright.adapters.kube.spec.trial import PodSpec
from tunewright.adapters.kube.status import RunView, blocked_status, is_over, refused_status, run_status
from tunewright.domain.training_config import TrainingConfig
from tunewright.planner.advisor_figures import AdvisorFigures
from tunewright.planner.axis_table import AxisEffect, AxisRow
from tunewright.planner.figures import BestMeasured, BestProjected, BiasFigure, Improvement
from tunewright.planner.forecast import Forecast
from tunewright.planner.summary import (
    Counters,
    FailureCount,
    LastFailure,
    SpentFigures,
    Summary,
)
from tunewright.report.page import render_report
from tunewright.report.story import story_of
from tunewright.search.space import SpaceCounts

NOW = "2026-11-30T06:00:00Z"
CONFIG = TrainingConfig(pipeline_parallel_size=4, expert_parallel_size=8, micro_batch_size=2)
COUNTERS = Counters(
    profiles=26,
    max_profiles=30,
    proposed=40,
    filtered=7,
    pruned=3,
    reused=4,
    rejected=1,
    running=1,
    projected=26,
    measured=2,
    failed=1,
    failed_by_class=(FailureCount(failure="NodeLost", count=1),),
    last_failure=LastFailure(trial="t0011", failure="NodeLost", node="gpu-3", message="node gpu-3 NotReady"),
)


def a_summary(**changes: Any) -> Summary:
    gains = Improvement(over_reference=26.71, over_baseline=13.14)
    common = {"tokens_per_second_per_gpu": 4402.4, "interval_low": 4380.2, "interval_high": 4424.9}
    fields: dict[str, Any] = {
        "state": "Validating",
        "answer": "measured 4402 tokens/s/GPU",
        "space": SpaceCounts(legal=8064, fitting=5330, tight=210, filtered=2734),
        "counters": COUNTERS,
        "best_projected": BestProjected(
            trial="t0012", improvement_percent=gains, memory_percent=91.42, configuration=CONFIG, **common
        ),
        "best_measured": BestMeasured(
            trial="t0030",
            improvement_percent=gains,
            configuration=CONFIG,
            nodes=8,
            repeats=2,
            flags=("ReferencePrecisionDiffers",),
            **common,
        ),
        "bias": BiasFigure(percent=11.49, samples=2, low_percent=9.8, high_percent=13.2),
        "axes": (AxisRow(axis="microBatchSize", values=(AxisEffect(value="1", kind="reference"),)),),
        "forecast": Forecast(
            trials=30,
            validations=4,
            gpu_hours=22.512,
            duration_seconds=2700.4,
            llm_calls=20,
            llm_cost_usd=1.2,
        ),
        "spent": SpentFigures(
            gpu_hours=18.2,
            duration_seconds=1500.9,
            queued_seconds=30.2,
            llm_calls=40,
            llm_tokens=81234,
            llm_cost_usd=0.84,
            gpu_hours_saved=9.3,
        ),
    }
    return Summary(**(fields | changes))


def an_advisor(**figures: Any) -> AdvisorFigures:
    return AdvisorFigures(share_percent=50, share_reason="as asked", **figures)


def a_view(**changes: Any) -> RunView:
    attempt = view_attempt(a_job(), [a_pod(node="gpu-1")], (), an_identity(), PodSpec(), 1_796_014_810.0)
    header = a_header(run_uid=A_RUN.uid)
    view = RunView(
        run=A_RUN,
        header=header,
        settings=header.settings,
        summary=a_summary(),
        phase="validate",
        attempts=[attempt],
        ledger_shards=2,
        ledger_digest="sha256:0",
    )
    return replace(view, **changes)


def status(previous: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    return run_status(a_view(**changes), previous or {}, 3, NOW)


def conditions(document: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {item["type"]: (item["status"], item["reason"]) for item in document["conditions"]}


def test_every_figure_has_its_place() -> None:
    document = status()
    assert document["state"] == "Validating"
    assert document["startTime"] == AT
    assert document["space"] == {"legal": 8064, "fitting": 5330, "tight": 210, "filtered": 2734}
    assert document["trials"]["summary"] == "26/30"
    assert document["trials"]["failedByClass"] == [{"class": "NodeLost", "count": 1}]
    assert document["trials"]["lastFailure"]["node"] == "gpu-3"
    assert document["forecast"]["gpuHours"] == "22.51"
    assert (document["forecast"]["trials"], document["forecast"]["validations"]) == (30, 4)
    assert document["spent"]["durationSeconds"] == 1501
    assert document["axes"] == [{"axis": "microBatchSize", "effects": "1 ref"}]
    assert document["bias"] == {"percent": "11.5", "samples": 2, "intervalPercent": {"low": "9.8", "high": "13.2"}}
    assert document["recentTrials"] == [
        {
            "trial": "t0012",
            "attempt": 1,
            "kind": "Profile",
            "phase": "Queued",
            "job": "tiny-t0012-a1-1c6062",
            "node": "gpu-1",
        }
    ]
    assert document["best"]["measured"] == {
        "trial": "t0030",
        "tokensPerSecondPerGPU": 4402,
        "intervalLow": 4380,
        "intervalHigh": 4425,
        "improvementPercent": {"overReference": "26.7", "overBaseline": "13.1"},
        "nodes": 8,
        "repeats": 2,
        "flags": ["ReferencePrecisionDiffers"],
        "configuration": {
            "tensorParallelSize": 1,
            "pipelineParallelSize": 4,
            "expertParallelSize": 8,
            "microBatchSize": 2,
        },
    }


@pytest.mark.parametrize(
    "document",
    [
        status(),
        status(summary=a_summary(best_projected=None, best_measured=None, bias=None, axes=()), phase=None, attempts=[]),
        refused_status("Illegal", "spec.baseline …", {}, 1, NOW),
        blocked_status("line 3", status(), 1, NOW, "LedgerUnreadable"),
    ],
    ids=["full", "empty", "refused", "unreadable"],
)
def test_the_schema_holds_every_field(document: dict[str, Any]) -> None:
    """A field that the API server prunes would be written again in each pass."""
    kept = TuningRunStatus.parse(document).model_dump(mode="json", by_alias=True, exclude_unset=True)
    assert kept == document


def test_a_run_whose_ledger_cannot_be_read_is_not_over_and_keeps_its_figures() -> None:
    document = blocked_status("shard 2, line 3: not JSON", status(), 3, NOW, "LedgerUnreadable")
    assert conditions(document)["Finished"] == ("False", "LedgerUnreadable")
    assert not is_over({"metadata": {"generation": 3}, "status": document})
    assert document["best"] == status()["best"]
    assert document["answer"] == "blocked: shard 2, line 3: not JSON"


def test_a_second_pass_changes_nothing() -> None:
    first = status()
    assert run_status(a_view(), first, 3, "2027-01-01T00:00:00Z") == first


def test_conditions_follow_the_phases() -> None:
    assert conditions(status(phase=None))["Seeded"] == ("Unknown", "Pending")
    assert conditions(status(phase="seed"))["Seeded"] == ("False", "Sweeping")
    exploring = conditions(status(phase="explore"))
    assert (exploring["Seeded"], exploring["Explored"]) == (("True", "AxesSwept"), ("False", "Exploring"))
    validating = conditions(status())
    assert (validating["Explored"], validating["Validated"]) == (("True", "RoundsDone"), ("Unknown", "Measuring"))
    assert (validating["Finished"], validating["Succeeded"]) == (("False", "Validating"), ("Unknown", "NotFinished"))


@pytest.mark.parametrize(("measured", "said"), [(1, "1 of 2"), (5, "5, more than the 2 asked for")])
def test_validated_counts_what_was_measured_beyond_the_wanted(measured: int, said: str) -> None:
    found = status(summary=a_summary(counters=COUNTERS.model_copy(update={"measured": measured})))["conditions"]
    assert next(one["message"] for one in found if one["type"] == "Validated") == said


@pytest.mark.parametrize(
    ("state", "reason", "succeeded"),
    [("Succeeded", "Converged", "True"), ("Stopped", "Stopped", "False"), ("Failed", "Failed", "False")],
)
def test_finished_is_true_in_every_outcome(state: str, reason: str, succeeded: str) -> None:
    summary = a_summary(state=state, finish_reason=reason, finish_message="why")
    document = status(summary=summary)
    found = conditions(document)
    assert found["Finished"] == ("True", reason)
    assert found["Succeeded"] == (succeeded, reason)
    assert document["results"]["configMap"] == "tiny-result"


def test_suspension_shows_until_the_run_is_over() -> None:
    document = status(suspended="BySpec")
    assert (document["state"], conditions(document)["Suspended"]) == ("Suspended", ("True", "BySpec"))
    by_annotation = next(c for c in status(suspended="ByAnnotation")["conditions"] if c["type"] == "Suspended")
    assert (by_annotation["status"], by_annotation["reason"]) == ("True", "ByAnnotation")
    assert "tunewright.dev/suspend" in by_annotation["message"]
    over = status(suspended="BySpec", summary=a_summary(state="Succeeded", finish_reason="Converged"))
    assert (over["state"], conditions(over)["Suspended"]) == ("Succeeded", ("False", "NotSuspended"))


def test_the_answer_says_what_a_run_waits_for() -> None:
    full = Capacity(False, "NotEnoughNodes", "1 node(s) needed, 0 found")
    assert status(phase=None, capacity=full)["answer"] == "waiting for nodes: 1 node(s) needed, 0 found"
    assert status(phase=None, suspended="BySpec")["answer"].startswith("suspended before the first trial")
    assert status(capacity=full, suspended="BySpec")["answer"] == "measured 4402 tokens/s/GPU"


def test_capacity_that_is_not_looked_at_again_stays() -> None:
    first = status(capacity=Capacity(True, "NodesFound", "8 nodes"))
    assert conditions(run_status(a_view(), first, 3, NOW))["CapacityAvailable"] == ("True", "NodesFound")
    unchecked = status(capacity=Capacity(None, "NotChecked", "may not list nodes"))
    assert conditions(unchecked)["CapacityAvailable"] == ("Unknown", "NotChecked")


@pytest.mark.parametrize(
    ("advisor", "calls", "expected"),
    [
        (None, 0, ("False", "NotConfigured")),
        (an_advisor(asked=0, answered=0, available=True), 0, ("Unknown", "NotAsked")),
        (an_advisor(asked=2, answered=2, available=True), 2, ("True", "Answering")),
        (an_advisor(asked=2, answered=1, available=False, reason="Unreachable"), 2, ("False", "Unreachable")),
        (an_advisor(asked=9, answered=9, available=True), 20, ("False", "OverBudget")),
    ],
)
def test_the_advisor_has_a_condition(advisor: AdvisorFigures | None, calls: int, expected: tuple[str, str]) -> None:
    spent = a_summary().spent.model_copy(update={"llm_calls": calls})
    assert conditions(status(summary=a_summary(advisor=advisor, spent=spent)))["AdvisorAvailable"] == expected


def test_a_refusal_keeps_what_was_found() -> None:
    document = refused_status("Illegal", "spec.budget …", status(), 4, NOW)
    assert document["best"] == status()["best"]
    assert document["observedGeneration"] == 4
    assert conditions(document)["Accepted"] == ("False", "Illegal")
    assert document["answer"] == "not accepted: spec.budget …"


def test_results_hold_the_summary_and_every_launcher() -> None:
    files = result_files(a_header().problem, a_summary())
    assert list(files) == [
        "result.json",
        "best-primus.yaml",
        "best-primus.sh",
        "best-megatron.args",
        "best-torchtitan.toml",
        "best.env",
    ]
    none = result_files(a_header().problem, a_summary(best_projected=None, best_measured=None))
    assert list(none) == ["result.json"]


def test_results_hold_the_report_compressed() -> None:
    records = reported_run()
    (page,) = result_page(records, story_of(records).space).values()
    assert gzip.decompress(page).decode() == render_report(records)
    assert result_page(records, story_of(records).space) == {PAGE: page}, "the same records give the same bytes"


def test_a_report_too_large_for_a_config_map_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "MOST_COMPRESSED_BYTES", 1000)
    records = reported_run()
    assert result_page(records, story_of(records).space) == {}


@pytest.mark.parametrize(
    ("annotations", "spec_says", "expected"),
    [
        (None, False, None),
        ({}, True, "BySpec"),
        ({SUSPEND: "true"}, False, "ByAnnotation"),
        ({SUSPEND: ""}, False, "ByAnnotation"),
        ({SUSPEND: "true"}, True, "ByAnnotation"),
        ({SUSPEND: "false"}, True, None),
        ({SUSPEND: " False "}, True, None),
    ],
)
def test_the_annotation_wins_over_the_spec(
    annotations: dict[str, str] | None, *, spec_says: bool, expected: str | None
) -> None:
    assert suspended_by(annotations, spec_says=spec_says) == expected
