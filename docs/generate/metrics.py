"""docs/reference/metrics.md: what `/metrics` answers, from the registry of an operator that has seen one of each."""

from collections.abc import Iterator

from prometheus_client import Metric

from docs.generate.markdown import code, page, table
from tunewright.controller.settings import OperatorSettings
from tunewright.controller.telemetry import Telemetry
from tunewright.planner.records import Advice

_INTRODUCTION = """The operator serves them on `TUNEWRIGHT_METRICS_PORT` (the chart: `metrics.port`), path `/metrics`, \
without authentication: they hold no name of a run, namespace, node, model or image.

Counters and histograms begin at zero with every process, which `rate()` and `increase()` allow for. Gauges describe \
what exists, so a restart does not change them. What single runs cost is in their statuses. A histogram has the series \
`_bucket`, `_sum` and `_count`. [The runbook](../guides/runbook.md) has the alerts; the chart ships them and a Grafana \
dashboard."""


def metrics_page() -> str:
    """Return the page."""
    rows = [
        (code(_name(metric)), metric.type, ", ".join(map(code, _labels(metric))), metric.unit, metric.documentation)
        for metric in all_metrics()
    ]
    return page("Metrics", _INTRODUCTION, table(("metric", "type", "labels", "unit", "meaning"), rows))


def all_metrics() -> Iterator[Metric]:
    """Yield every metric with at least one series: where labels are not known beforehand, one event shows them."""
    telemetry = Telemetry(OperatorSettings())
    telemetry.metrics.count_request("GET", "/api/v1/nodes", 200)
    telemetry.metrics.count_advice(Advice(round=1, outcome="answered", at=""))
    condition = {"type": "Accepted", "status": "False", "reason": "Illegal"}
    telemetry.board.saw("namespace/name", {"state": "Pending", "conditions": [condition]})
    telemetry.board.is_complete = True
    yield from telemetry.metrics.registry.collect()


def _name(metric: Metric) -> str:
    return f"{metric.name}{'_total' if metric.type == 'counter' else '_info' if metric.type == 'info' else ''}"


def _labels(metric: Metric) -> list[str]:
    return list(dict.fromkeys(label for sample in metric.samples for label in sample.labels if label != "le"))
