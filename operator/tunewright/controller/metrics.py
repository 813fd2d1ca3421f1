"""The operator's metrics and what is counted in each. Made by `telemetry`; filled by the reconciler's callers.

Counters and histograms count what this process did, from its start, so that `rate()` and `increase()` see a restart as
any other reset. What exists now, such as runs by state, is in `run_board`. No label holds a name that people choose.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import get_args

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Histogram, Info, ProcessCollector

import tunewright
from tunewright.errors import ClusterError, Conflict, Forbidden, LedgerError, Transient, TuningError
from tunewright.planner.records import Advice, TrialFinished
from tunewright.planner.trial import failure_of
from tunewright.trial_protocol.identity import TrialKind
from tunewright.trial_protocol.report import CONFIGURATION_FAILURES, ENDED_BY_DRIVER, FailureClass

Reconcile = Callable[[str], Awaitable[float | None]]

SUCCEEDED = "succeeded"
_UNEXPECTED = "Unexpected"
_SINCE = "since this process started"
_FAST_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_ANSWER_SECONDS = (0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300)
_QUEUE_SECONDS = (1, 10, 60, 300, 900, 1800, 3600, 7200, 21600, 86400)
_LAG_PERIOD_SECONDS = 0.1

prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]  # a time for each would double the series


class OperatorMetrics:
    """A registry of our own: libraries may put theirs into the default one."""

    def __init__(self) -> None:
        self.registry = own = CollectorRegistry()
        ProcessCollector(namespace="tunewright", registry=own)
        info = Info("tunewright_operator", "The operator that answers", registry=own)
        info.info({"version": tunewright.__version__})
        self._attempts = Counter(
            "tunewright_trial_attempts",
            f"Attempts of trials that ended, {_SINCE}. result: succeeded; configuration: a fact about the"
            " configuration, such as out of memory; place: a fault of node, image, quota or report; ended: by the run",
            ("kind", "result", "class"),
            registry=own,
        )
        self._gpu_seconds = Counter(
            "tunewright_gpu",
            f"Accelerator time of attempts that ended, {_SINCE}; accelerators times seconds",
            ("kind", "result"),
            unit="seconds",
            registry=own,
        )
        self._queued = Histogram(
            "tunewright_trial_queued",
            f"Time from an attempt's creation to its start, of attempts that ended {_SINCE}",
            ("kind",),
            unit="seconds",
            buckets=_QUEUE_SECONDS,
            registry=own,
        )
        self._rounds = Counter(
            "tunewright_llm_rounds",
            f"Questions to the LLM by outcome, {_SINCE}. reason: of the condition AdvisorAvailable; lost: asked by a"
            " process that ended",
            ("outcome", "reason"),
            registry=own,
        )
        self._calls = Counter(
            "tunewright_llm_calls", f"Requests that reached an LLM's endpoint, {_SINCE}", registry=own
        )
        self._tokens = Counter(
            "tunewright_llm_tokens", f"Tokens of prompts and answers, {_SINCE}", ("direction",), registry=own
        )
        self._cost = Counter(
            "tunewright_llm_cost", f"What the LLM cost, in US dollars, {_SINCE}", unit="usd", registry=own
        )
        self._answers = Histogram(
            "tunewright_llm_answer",
            f"Time from a question to its answer, retries included, {_SINCE}",
            unit="seconds",
            buckets=_ANSWER_SECONDS,
            registry=own,
        )
        self._decisions = _fast("tunewright_decision", "Time that the planner took for a round of decisions", own)
        self._reconciles = _fast("tunewright_reconcile", "Time of one pass over a run, failed ones included", own)
        self._reconcile_errors = Counter(
            "tunewright_reconcile_errors",
            f"Passes that failed and are tried again, {_SINCE}. error: our class of error, or Unexpected",
            ("error",),
            registry=own,
        )
        self._lag = _fast("tunewright_event_loop_lag", "How late the event loop woke up, ten samples a second", own)
        self._requests = Counter(
            "tunewright_api_requests",
            f"Requests to the Kubernetes API, {_SINCE}; watches are not among them. code: the HTTP status, or none"
            " where no answer came",
            ("method", "resource", "code"),
            registry=own,
        )
        self._start_at_zero()

    def count_attempt(self, kind: TrialKind, end: TrialFinished) -> None:
        """Count an attempt whose end is in the ledger."""
        failure = failure_of(end)
        result = result_of(failure)
        self._attempts.labels(kind, result, failure or "").inc()
        self._gpu_seconds.labels(kind, result).inc(end.gpu_seconds)
        self._queued.labels(kind).observe(end.queued_seconds)

    def count_advice(self, advice: Advice) -> None:
        """Count the answer to a question. What a lost one cost is not known."""
        self._rounds.labels(advice.outcome, advice.condition_reason).inc()
        if advice.outcome == "lost":
            return
        self._calls.inc(advice.usage.calls)
        self._tokens.labels("input").inc(advice.usage.input_tokens)
        self._tokens.labels("output").inc(advice.usage.output_tokens)
        self._cost.inc(advice.usage.cost_usd)
        self._answers.observe(advice.latency_seconds)

    def observe_decision(self, seconds: float) -> None:
        """Count a round of decisions."""
        self._decisions.observe(seconds)

    def count_request(self, method: str, path: str, status: int) -> None:
        """Count a request to the API server; status 0: no answer."""
        self._requests.labels(method, kind_in(path), str(status or "none")).inc()

    async def timed(self, reconcile: Reconcile, key: str) -> float | None:
        """Do one pass and count it; what it raises is counted and raised."""
        began = time.perf_counter()
        try:
            return await reconcile(key)
        except Exception as error:
            name = type(error).__name__ if isinstance(error, TuningError) else _UNEXPECTED
            self._reconcile_errors.labels(name).inc()
            raise
        finally:
            self._reconciles.observe(time.perf_counter() - began)

    async def measure_lag(self) -> None:
        """Sample for ever how much later than asked for the event loop wakes up."""
        while True:
            began = time.perf_counter()
            await asyncio.sleep(_LAG_PERIOD_SECONDS)
            self._lag.observe(max(0.0, time.perf_counter() - began - _LAG_PERIOD_SECONDS))

    def _start_at_zero(self) -> None:
        """Show every bounded series from the start: `increase()` does not see the first event of a new one."""
        for kind in get_args(TrialKind):
            self._queued.labels(kind)
            for failure in (None, *get_args(FailureClass)):
                self._attempts.labels(kind, result_of(failure), failure or "")
                self._gpu_seconds.labels(kind, result_of(failure))
        for outcome in ("answered", "lost"):
            self._rounds.labels(outcome, "")
        for direction in ("input", "output"):
            self._tokens.labels(direction)
        for error in (Transient, Conflict, Forbidden, ClusterError, LedgerError):
            self._reconcile_errors.labels(error.__name__)
        self._reconcile_errors.labels(_UNEXPECTED)


def result_of(failure: FailureClass | None) -> str:
    """Return what an end says: succeeded, or whether configuration, place or the run itself is the reason."""
    if failure is None:
        return SUCCEEDED
    if failure in ENDED_BY_DRIVER:
        return "ended"
    return "configuration" if failure in CONFIGURATION_FAILURES else "place"


def kind_in(path: str) -> str:
    """Return the kind of object, in plural, that a path of the API is about.

    >>> kind_in("/apis/batch/v1/namespaces/jobs/jobs/a"), kind_in("/api/v1/nodes"), kind_in("/api/v1/namespaces/a")
    ('jobs', 'nodes', 'namespaces')
    """
    parts = path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    return parts[2] if parts[0] == "namespaces" and len(parts) > 2 else parts[0]


def _fast(name: str, help_text: str, registry: CollectorRegistry) -> Histogram:
    return Histogram(name, f"{help_text}, {_SINCE}", unit="seconds", buckets=_FAST_SECONDS, registry=registry)
