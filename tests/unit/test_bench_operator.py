"""The figures of `make bench-operator`: quantiles, verdicts, and what counts as a delay of the operator."""

import math

import pytest

from benchmarks.operator.delays import decision_delays
from benchmarks.operator.figures import Figure, bucket_quantile, quantile
from benchmarks.operator.scrape import Scrape
from tunewright.planner.records import TrialFinished

EXPOSED = """\
# TYPE tunewright_api_requests counter
tunewright_api_requests_total{method="GET",resource="jobs",code="200"} %d
tunewright_api_requests_total{method="PATCH",resource="jobs",code="200"} 2
# TYPE tunewright_reconcile_seconds histogram
tunewright_reconcile_seconds_bucket{le="0.1"} %d
tunewright_reconcile_seconds_bucket{le="+Inf"} %d
tunewright_reconcile_seconds_sum 1
tunewright_reconcile_seconds_count %d
"""


def ended(trial: str, at: str) -> TrialFinished:
    return TrialFinished(trial=trial, attempt=1, at=at)


def test_a_trial_that_waits_for_an_older_one_is_not_late() -> None:
    recorded = [ended("t1", "1970-01-01T00:00:10.500Z"), ended("t2", "1970-01-01T00:00:10.600Z")]
    jobs = {("t1", 1): "one", ("t2", 1): "two"}
    assert list(decision_delays(recorded, jobs, {"one": 10.0, "two": 3.0})) == pytest.approx([0.5, 0.6])


def test_an_attempt_whose_pod_never_ended_is_left_out() -> None:
    assert list(decision_delays([ended("t1", "1970-01-01T00:00:10Z")], {("t1", 1): "one"}, {})) == []


def test_what_grew_between_two_moments_is_counted() -> None:
    grown = Scrape.of(EXPOSED % (7, 3, 4, 4)).since(Scrape.of(EXPOSED % (2, 1, 1, 1)))
    assert grown.total("tunewright_api_requests_total") == 5
    assert grown.by("tunewright_api_requests_total", "method", "resource") == {"GET jobs": 5}
    assert grown.buckets("tunewright_reconcile_seconds") == [(0.1, 2), (math.inf, 3)]


def test_a_quantile_beyond_the_last_bound_is_that_bound() -> None:
    assert bucket_quantile([(0.1, 2.0), (0.2, 2.0), (math.inf, 3.0)], 0.99) == 0.2
    assert math.isnan(bucket_quantile([(0.1, 0.0), (math.inf, 0.0)], 0.99))
    assert quantile([0.1] * 99 + [5.0], 0.99) == 0.1


@pytest.mark.parametrize(("value", "verdict"), [(8.0, "met"), (8.1, "MISSED"), (math.nan, "MISSED")])
def test_a_target_is_met_by_a_number_within_it(value: float, verdict: str) -> None:
    assert Figure("requests", "per trial", value, "", limit=8).verdict == verdict
