"""The chart's values for logs and metrics, typed, with their defaults. Part of `chart_values`."""

from typing import Literal

from pydantic import Field

from tunewright.domain.value import Value


class LogValues(Value):
    """What the operator writes to its log."""

    format: Literal["text", "json"] = Field("text", description="json: an object a line, with run and trial.")


class PodMonitorValues(Value):
    """A PodMonitor, for clusters with the Prometheus operator."""

    enabled: bool = Field(False, description="Needs the CRDs of monitoring.coreos.com.")
    interval: str = Field("30s", pattern=r"^\d+(ms|s|m)$", description="How often Prometheus asks.")
    labels: dict[str, str] = Field(default_factory=dict, description="Those by which your Prometheus selects it.")


class PrometheusRuleValues(Value):
    """The alerts, each with a section in docs/guides/runbook.md."""

    enabled: bool = Field(False, description="Needs the CRDs of monitoring.coreos.com.")
    labels: dict[str, str] = Field(default_factory=dict, description="Those by which your Prometheus selects it.")


class DashboardValues(Value):
    """A ConfigMap with the Grafana dashboard, for Grafana's sidecar."""

    enabled: bool = False
    labels: dict[str, str] = Field(
        default_factory=lambda: {"grafana_dashboard": "1"}, description="Those by which your Grafana selects it."
    )


class MetricsValues(Value):
    """Prometheus metrics of the operator: docs/reference/metrics.md."""

    enabled: bool = Field(True, description="Serve /metrics, and make a Service for it.")
    port: int = Field(8081, ge=1, le=65535)
    service_annotations: dict[str, str] = Field(
        default_factory=dict, description='Such as prometheus.io/scrape: "true", where your Prometheus follows them.'
    )
    pod_monitor: PodMonitorValues = PodMonitorValues()
    prometheus_rule: PrometheusRuleValues = PrometheusRuleValues()
    dashboard: DashboardValues = DashboardValues()
