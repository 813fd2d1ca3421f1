"""What the operator tells of itself, held against what reads it: dashboard, alerts, runbook, log collectors."""

import json
import re
import shutil
import subprocess
import urllib.request
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.cluster.test_operator_llm import WIDE
from tests.support.answering import answered
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.commands import need_program
from tests.support.cluster.ports import free_ports
from tests.support.cluster.reporting import or_skip
from tests.support.cluster.waiting import wait_until
from tests.support.helm import CHART, rendered
from tests.support.kube_cluster import apply_run, install_crd, kube_client
from tests.support.kube_documents import a_tuning_run
from tests.support.openai_server import proposals, serving
from tests.support.operator_process import OperatorProcess
from tests.support.operator_runs import example, gpu_node, is_finished, kubelet_of, wait_for
from tunewright.adapters.kube.client import JOBS

Document = dict[str, Any]
RUNBOOK = CHART.parents[1] / "docs" / "guides" / "runbook.md"
DASHBOARD = CHART / "dashboards" / "tunewright.json"
RULES = CHART / "rules" / "tunewright.yaml"
CASES = Path(__file__).with_name("alerts.yaml")
ALERTS: list[Document] = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
EXPRESSIONS = [
    target["expr"] for panel in json.loads(DASHBOARD.read_text())["panels"] for target in panel.get("targets", ())
]
METRIC = re.compile(r"\btunewright_[a-z0-9_]+")
ALL_MONITORING = [
    "--set", "metrics.podMonitor.enabled=true,metrics.podMonitor.labels.release=prometheus",
    "--set", "metrics.prometheusRule.enabled=true,metrics.prometheusRule.labels.release=prometheus",
    "--set", "metrics.dashboard.enabled=true",
]  # fmt: skip


@pytest.fixture(scope="module")
def promtool() -> str:
    """Prometheus' own judge of rules."""
    return or_skip(lambda: need_program("promtool", "apt-get install prometheus"))


def scrape(port: int) -> dict[str, float]:
    """Return every series of `/metrics` with its value, as name{label=value,...}."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        families = text_string_to_metric_families(answer.read().decode())
        samples = [sample for family in families for sample in family.samples]
    return {
        f"{sample.name}{{{','.join(f'{name}={value}' for name, value in sample.labels.items())}}}": sample.value
        for sample in samples
    }


def total(series: dict[str, float], name: str, *labels: str) -> float:
    """Sum the series of a name that have these labels."""
    return sum(
        value for key, value in series.items() if key.startswith(f"{name}{{") and all(label in key for label in labels)
    )


@dataclass(frozen=True)
class Served:
    """What an operator did, to hold its metrics against."""

    operator: OperatorProcess
    port: int
    status: Document
    jobs: int
    llm_requests: int

    def wait_until_ready(self) -> None:
        wait_until(lambda: answered(self.operator.probe_port, "/readyz") == 200, "the operator is ready")


@pytest.fixture
async def served(control_plane: Cluster, namespace: str, tmp_path: Path) -> AsyncIterator[Served]:
    """An operator with metrics, JSON logs and an LLM of its own; one run of it is finished, another is refused."""
    install_crd(control_plane)
    (port,) = free_ports(1)
    variables = {"TUNEWRIGHT_METRICS_PORT": str(port), "TUNEWRIGHT_LOG_FORMAT": "json"}
    with serving(proposals({"tensor_parallel_size": 4, "micro_batch_size": 2})) as llm:
        price = {"inputUSDPerMillionTokens": "10000", "outputUSDPerMillionTokens": "0"}
        own = {"model": "openai/scripted", "apiBase": llm.api_base, "price": price}
        variables |= {"TUNEWRIGHT_LLM": json.dumps(own), "TUNEWRIGHT_LLM_API_KEY": "sk-any"}
        operator = OperatorProcess(control_plane, namespace, tmp_path / "operator.log", variables=variables)
        explore = {"strategy": "LLM", "llmSharePercent": 100, "patience": 1}
        run = apply_run(control_plane, namespace, example(searchSpace=WIDE, explore=explore))
        refused = apply_run(control_plane, namespace, a_tuning_run("refused", baseline={"tensorParallelSize": 3}))
        async with kube_client(control_plane) as client, gpu_node(client, namespace) as node:
            with operator:
                async with kubelet_of(client, namespace, node):
                    status = (await wait_for(client, run, is_finished, operator))["status"]
                    await wait_for(client, refused, lambda found: bool(found), operator)
                yield Served(operator, port, status, len(await client.list(JOBS, namespace)), len(llm.requests))


async def test_a_running_operator_exposes_what_is_read_and_counts_what_was_done(served: Served) -> None:
    served.wait_until_ready()
    # The watch shows a status a moment after it was written.
    series = wait_until(lambda: _with(scrape(served.port), "tunewright_runs", "state=Succeeded"), "the run is seen")
    exposed = {key.partition("{")[0] for key in series}
    names = exposed | {name.removesuffix("_bucket") for name in exposed}
    read = [text for text in (*EXPRESSIONS, *(alert["expr"] for alert in ALERTS), RUNBOOK.read_text())]
    assert {name for text in read for name in METRIC.findall(text)} <= names, "read, and exposed by nobody"

    assert total(series, "tunewright_runs") == 2
    assert total(series, "tunewright_runs_held", "condition=Accepted", "reason=Illegal") == 1
    assert total(series, "tunewright_trials_running") == 0
    assert total(series, "tunewright_trial_attempts_total", "result=succeeded") == served.jobs > 0
    spent = served.status["spent"]
    assert total(series, "tunewright_gpu_seconds_total") == pytest.approx(float(spent["gpuHours"]) * 3600, rel=0.02)
    assert total(series, "tunewright_llm_calls_total") == served.llm_requests == spent["llmCalls"] > 0
    assert total(series, "tunewright_llm_tokens_total") == spent["llmTokens"] > 0
    assert total(series, "tunewright_llm_cost_usd_total") == pytest.approx(float(spent["llmCostUSD"]), rel=0.02)
    assert total(series, "tunewright_llm_cost_usd_total") > 0
    for name in ("decision", "reconcile", "event_loop_lag", "llm_answer", "trial_queued"):
        assert total(series, f"tunewright_{name}_seconds_count") > 0, name
    assert total(series, "tunewright_api_requests_total", "method=POST", "resource=jobs", "code=201") == served.jobs
    labels = {value for key in series for value in re.findall(r"=([^,}]+)", key)}
    assert not labels & {"tiny", "refused", "scripted", "openai/scripted"}, "no name that people choose is a label"

    assert_each_line_is_json_with_run_and_trial(served)
    assert served.operator.stop() == 0
    served.operator.start()
    served.wait_until_ready()
    again = scrape(served.port)
    assert _runs(again) == _runs(series), "what exists is the same"
    assert total(again, "tunewright_trial_attempts_total") == 0, "what this process did is not"


def assert_each_line_is_json_with_run_and_trial(served: Served) -> None:
    lines = [json.loads(line) for line in served.operator.log.read_text().splitlines()]
    assert {line["severity"] for line in lines} <= {"info", "warn", "error"}
    about_trials = [line for line in lines if "trial" in line]
    assert {line["run"].partition("/")[2] for line in about_trials} == {"tiny"}
    assert len({line["trial"] for line in about_trials}) == served.jobs
    assert [line for line in lines if line["logger"].startswith("kopf")], "kopf's own lines are among them"


def _runs(series: dict[str, float]) -> dict[str, float]:
    return {key: value for key, value in series.items() if key.startswith("tunewright_runs")}


def _with(series: dict[str, float], name: str, *labels: str) -> dict[str, float] | None:
    return series if total(series, name, *labels) else None


def test_every_alert_fires_in_a_case_of_its_own_and_none_when_all_is_well(promtool: str, tmp_path: Path) -> None:
    for file in (RULES, CASES):
        shutil.copy(file, tmp_path)
    done = subprocess.run(
        [promtool, "test", "rules", CASES.name], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    fired = set(re.findall(r'alertname="(\w+)"', CASES.read_text()))
    assert fired == {alert["alert"] for alert in ALERTS}


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: str(alert["alert"]))
def test_every_alert_has_a_section_in_the_runbook(alert: Document) -> None:
    name = alert["alert"]
    assert alert["annotations"]["runbook"] == f"docs/guides/runbook.md#{name.lower()}"
    section = RUNBOOK.read_text().partition(f"\n## {name}\n")[2].partition("\n## ")[0]
    assert all(f"\n{part}: " in section for part in ("Look", "Do")), f"{name}: where to look, and what to do"


def test_the_runbook_has_no_section_of_an_alert_that_is_gone() -> None:
    sections = set(re.findall(r"^## (Tunewright\w+)$", RUNBOOK.read_text(), re.MULTILINE))
    assert sections == {alert["alert"] for alert in ALERTS}


def test_every_query_of_the_dashboard_is_one(promtool: str, tmp_path: Path) -> None:
    queries = [expression.replace("$__rate_interval", "5m") for expression in EXPRESSIONS]
    assert len(queries) > 20
    rules = [{"record": f"query:{number}", "expr": query} for number, query in enumerate(queries)]
    file = tmp_path / "queries.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    done = subprocess.run([promtool, "check", "rules", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def monitoring(*arguments: str) -> dict[str, Document]:
    """Return what the chart makes with everything for Prometheus and Grafana, by kind and name."""
    objects = rendered("any", *ALL_MONITORING, *arguments)
    return {f"{document['kind']} {document['metadata']['name']}": document for document in objects}


def test_the_chart_makes_nothing_that_needs_a_crd_unless_asked() -> None:
    kinds = {document["kind"] for document in rendered("any")}
    assert "Service" in kinds
    assert not kinds & {"PodMonitor", "PrometheusRule"}


def test_the_chart_brings_rules_and_dashboard_as_they_are_tested() -> None:
    objects = monitoring()
    for kind in ("PodMonitor", "PrometheusRule"):
        assert objects[f"{kind} tunewright"]["metadata"]["labels"]["release"] == "prometheus"
    assert objects["PrometheusRule tunewright"]["spec"] == yaml.safe_load(RULES.read_text())
    dashboard = objects["ConfigMap tunewright-dashboard"]
    assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(dashboard["data"]["tunewright.json"]) == json.loads(DASHBOARD.read_text())


def test_what_prometheus_and_the_kubelet_ask_is_what_the_operator_is_told_to_serve() -> None:
    objects = monitoring("--set", "metrics.port=9999")
    pod = objects["Deployment tunewright"]["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    environment = {one["name"]: one.get("value") for one in container["env"]}
    ports = {one["name"]: one["containerPort"] for one in container["ports"]}
    assert (environment["TUNEWRIGHT_METRICS_PORT"], ports["metrics"]) == ("9999", 9999)
    probes = [container[f"{kind}Probe"]["httpGet"] for kind in ("liveness", "readiness")]
    assert probes == [{"path": "/healthz", "port": "probes"}, {"path": "/readyz", "port": "probes"}]
    monitor = objects["PodMonitor tunewright"]["spec"]
    assert monitor["podMetricsEndpoints"][0]["port"] == "metrics"
    assert monitor["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    service = objects["Service tunewright-metrics"]["spec"]
    assert service["ports"] == [{"name": "metrics", "port": 9999, "targetPort": "metrics"}]
    assert service["selector"].items() <= pod["metadata"]["labels"].items()


def test_without_metrics_the_chart_makes_nothing_for_them() -> None:
    objects = monitoring("--set", "metrics.enabled=false")
    assert not [name for name in objects if name.endswith(("-metrics", "-dashboard")) or "PodMonitor" in name]
    assert "TUNEWRIGHT_METRICS_PORT" not in str(objects["Deployment tunewright"])


def test_the_operator_logs_in_the_format_that_the_chart_is_told() -> None:
    deployment = monitoring("--set", "logs.format=json")["Deployment tunewright"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert {"name": "TUNEWRIGHT_LOG_FORMAT", "value": "json"} in container["env"]
