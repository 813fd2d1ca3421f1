"""What the operator counts, and that the page about it is up to date."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.generate.metrics import all_metrics, metrics_page
from tests.support.records import AT, an_advice
from tunewright.controller.metrics import OperatorMetrics, kind_in, result_of
from tunewright.errors import Forbidden
from tunewright.planner.records import AdviceUsage, TrialFinished
from tunewright.trial_protocol.report import FailureClass

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "metrics.md"
Series = dict[str, float]


@pytest.fixture
def metrics() -> OperatorMetrics:
    return OperatorMetrics()


def series(metrics: OperatorMetrics) -> Series:
    """Return every series that is not zero, as Prometheus writes its name, processes' own left out."""
    return {name: value for name, value in _all(metrics) if value and "_process_" not in name and "_bucket" not in name}


def _all(metrics: OperatorMetrics) -> Iterator[tuple[str, float]]:
    for metric in metrics.registry.collect():
        for sample in metric.samples:
            labels = ",".join(f"{name}={text}" for name, text in sample.labels.items())
            yield f"{sample.name}{{{labels}}}", sample.value


def an_end(failure: FailureClass | None, **changes: float) -> TrialFinished:
    return TrialFinished(trial="t0001", attempt=1, failure=failure, at=AT, **changes)


@pytest.mark.parametrize(
    ("failure", "result"),
    [
        (None, "succeeded"),
        ("DeviceOutOfMemory", "configuration"),
        ("Timeout", "configuration"),
        ("NodeLost", "place"),
        ("ImagePull", "place"),
        ("ResultMissing", "place"),
        ("Cancelled", "ended"),
        ("Interrupted", "ended"),
    ],
)
def test_every_failure_is_of_the_configuration_of_the_place_or_of_the_run(
    failure: FailureClass | None, result: str
) -> None:
    assert result_of(failure) == result


def test_an_attempt_counts_with_its_class_its_accelerator_time_and_its_time_in_the_queue(
    metrics: OperatorMetrics,
) -> None:
    metrics.count_attempt("profile", an_end("NodeLost", gpu_seconds=80.0, queued_seconds=7.0))
    assert series(metrics) == series(OperatorMetrics()) | {
        "tunewright_trial_attempts_total{kind=profile,result=place,class=NodeLost}": 1.0,
        "tunewright_gpu_seconds_total{kind=profile,result=place}": 80.0,
        "tunewright_trial_queued_seconds_sum{kind=profile}": 7.0,
        "tunewright_trial_queued_seconds_count{kind=profile}": 1.0,
    }


def test_an_answer_counts_with_what_it_cost(metrics: OperatorMetrics) -> None:
    usage = AdviceUsage(input_tokens=3000, output_tokens=300, cost_usd=0.5, calls=2)
    metrics.count_advice(an_advice(1, usage=usage, latency_seconds=3.0))
    metrics.count_advice(an_advice(2, outcome="failed", condition_reason="Timeout", usage=AdviceUsage(calls=1)))
    metrics.count_advice(an_advice(3, outcome="lost"))
    assert series(metrics) == series(OperatorMetrics()) | {
        "tunewright_llm_rounds_total{outcome=answered,reason=}": 1.0,
        "tunewright_llm_rounds_total{outcome=failed,reason=Timeout}": 1.0,
        "tunewright_llm_rounds_total{outcome=lost,reason=}": 1.0,
        "tunewright_llm_calls_total{}": 3.0,
        "tunewright_llm_tokens_total{direction=input}": 3000.0,
        "tunewright_llm_tokens_total{direction=output}": 300.0,
        "tunewright_llm_cost_usd_total{}": 0.5,
        "tunewright_llm_answer_seconds_sum{}": 3.0,
        "tunewright_llm_answer_seconds_count{}": 2.0,
    }


async def test_a_pass_that_fails_is_counted_and_its_error_goes_on(metrics: OperatorMetrics) -> None:
    async def reconcile(key: str) -> float | None:
        if key == "team/forbidden":
            raise Forbidden("get jobs")
        if key == "team/broken":
            raise KeyError(key)
        return 3.0

    assert await metrics.timed(reconcile, "team/fine") == 3.0
    with pytest.raises(Forbidden):
        await metrics.timed(reconcile, "team/forbidden")
    with pytest.raises(KeyError):
        await metrics.timed(reconcile, "team/broken")
    found = series(metrics)
    assert found["tunewright_reconcile_errors_total{error=Forbidden}"] == 1.0
    assert found["tunewright_reconcile_errors_total{error=Unexpected}"] == 1.0
    assert found["tunewright_reconcile_seconds_count{}"] == 3.0


async def test_an_event_loop_that_is_held_up_shows_how_long(metrics: OperatorMetrics) -> None:
    task = asyncio.create_task(metrics.measure_lag())
    await asyncio.sleep(0)
    time.sleep(0.4)  # holds the loop up: that is what is measured
    while "tunewright_event_loop_lag_seconds_count{}" not in series(metrics):
        await asyncio.sleep(0)
    task.cancel()
    assert series(metrics)["tunewright_event_loop_lag_seconds_sum{}"] > 0.25


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/api/v1/nodes", "nodes"),
        ("/api/v1/namespaces/pods/configmaps", "configmaps"),
        ("/api/v1/namespaces/a/configmaps/jobs", "configmaps"),
        ("/api/v1/namespaces/a", "namespaces"),
        ("/apis/batch/v1/namespaces/a/jobs/b", "jobs"),
        ("/apis/tunewright.dev/v1alpha1/namespaces/a/tuningruns/b/status", "tuningruns"),
        ("/apis/tunewright.dev/v1alpha1/tuningruns", "tuningruns"),
    ],
)
def test_a_request_counts_by_the_kind_of_object_and_names_no_object(path: str, kind: str) -> None:
    assert kind_in(path) == kind


def test_a_request_without_an_answer_has_a_code_of_its_own(metrics: OperatorMetrics) -> None:
    metrics.count_request("GET", "/api/v1/nodes", 0)
    metrics.count_request("GET", "/api/v1/nodes", 429)
    found = series(metrics)
    assert found["tunewright_api_requests_total{method=GET,resource=nodes,code=none}"] == 1.0
    assert found["tunewright_api_requests_total{method=GET,resource=nodes,code=429}"] == 1.0


def test_every_metric_is_explained_and_named_by_its_unit() -> None:
    for metric in all_metrics():
        assert metric.name.startswith("tunewright_")
        assert metric.documentation
        assert metric.unit == "" or metric.name.endswith(f"_{metric.unit}")


def test_the_page_of_metrics_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == metrics_page(), "run make docs"
