"""The harness's own smoke test: what runs the Pods is a real kubelet with stand-in GPUs."""

import json
from pathlib import Path
from typing import Any

from tests.support.cluster.host_python import host_python_mounts
from tests.support.cluster.node import Node

DOCKERFILE = """
ARG BASE_IMAGE=python:3.11
FROM ${BASE_IMAGE} AS builder
RUN python3 -m venv /venv && /venv/bin/pip install --no-deps iniconfig

FROM ${BASE_IMAGE} AS smoke
COPY --from=builder /venv /venv
"""
REPORT = "import json; open('/dev/termination-log', 'w').write(json.dumps({answer}))"


def run_job(node: Node, namespace: str, container: dict[str, Any], volumes: list[dict[str, Any]]) -> dict[str, Any]:
    """Run a Job on the node to its end and return what its Pod's container ended with."""
    main = {"name": "main", "image": node.base_image(), "imagePullPolicy": "Never", **container}
    pod = {"restartPolicy": "Never", "containers": [main], "volumes": volumes}
    spec = {"backoffLimit": 0, "template": {"spec": pod}}
    kubectl = node.cluster.kubectl
    kubectl.apply(
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "smoke"}, "spec": spec}, namespace=namespace
    )
    kubectl("wait", "--for=condition=Complete", "job/smoke", f"--namespace={namespace}", "--timeout=120s")
    found = kubectl.get("pods", "--selector=job-name=smoke", namespace=namespace)["items"]
    ended: dict[str, Any] = found[0]["status"]["containerStatuses"][0]["state"]["terminated"]
    return ended


def test_a_job_on_eight_gpus_reports_through_its_termination_message(node: Node, node_namespace: str) -> None:
    command = ["python3", "-c", REPORT.format(answer="{'ok': True}")]

    ended = run_job(node, node_namespace, {"command": command, "resources": {"limits": {"amd.com/gpu": "8"}}}, [])

    assert json.loads(ended["message"]) == {"ok": True}


def test_torch_of_the_host_runs_in_a_pod(node: Node, node_namespace: str) -> None:
    mounts = host_python_mounts()
    command = [mounts.python, "-c", "import torch; " + REPORT.format(answer="torch.ones(3).sum().item()")]
    container = {"command": command, "env": mounts.env, "volumeMounts": mounts.volume_mounts}

    ended = run_job(node, node_namespace, container, mounts.volumes)

    assert json.loads(ended["message"]) == 3.0


def test_a_pod_reaches_the_api_server_by_its_service_name(node: Node, node_namespace: str) -> None:
    ask = (
        "import ssl, urllib.request as r; "
        "c = ssl.create_default_context(cafile='/var/run/secrets/kubernetes.io/serviceaccount/ca.crt'); "
        "answer = r.urlopen('https://kubernetes.default.svc/version', context=c, timeout=30).status; "
    )

    ended = run_job(node, node_namespace, {"command": ["python3", "-c", ask + REPORT.format(answer="answer")]}, [])

    assert json.loads(ended["message"]) == 200


def test_an_image_built_from_a_dockerfile_runs(node: Node, node_namespace: str, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text(DOCKERFILE)

    image = node.build_image(tmp_path / "Dockerfile", tmp_path, target="smoke", tag="localhost/smoke:test")
    command = ["/venv/bin/python", "-c", "import iniconfig; " + REPORT.format(answer="iniconfig.__name__")]
    ended = run_job(node, node_namespace, {"image": image, "command": command}, [])

    assert json.loads(ended["message"]) == "iniconfig"
