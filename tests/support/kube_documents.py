"""Documents of the Kubernetes API for tests: a TuningRun and its parts, nodes, Pods, Jobs, each with modifiers."""

from typing import Any

from tunewright.adapters.kube.manifests import PodOptions, trial_job
from tunewright.adapters.kube.names import RunReference
from tunewright.adapters.kube.spec.trial import PodSpec, TrialSpec
from tunewright.domain.catalog_loader import shipped_catalog
from tunewright.domain.hardware import Cluster
from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import TrainingConfig
from tunewright.trial_protocol.identity import TrialIdentity
from tunewright.trial_protocol.request import ExpectedDevice, TrialRequest

Document = dict[str, Any]

A_RUN = RunReference("team-a", "tiny", "11111111-2222-3333-4444-555555555555")
CREATED = "2026-11-30T05:00:00Z"


def a_tuning_run(name: str = "tiny", **spec: Any) -> Document:
    """Return a valid TuningRun of the tiny model on one node of eight MI355X; keywords replace parts of its spec."""
    return {
        "apiVersion": "tunewright.dev/v1alpha1",
        "kind": "TuningRun",
        "metadata": {"name": name},
        "spec": {
            "workload": {
                "model": {"preset": "tiny-quickstart"},
                "sequenceLength": 128,
                "globalBatchSize": 32,
                "backend": "builtin",
            },
            "cluster": {"nodes": 1, "gpusPerNode": 8, "accelerator": {"preset": "mi355x"}},
            **spec,
        },
    }


def a_problem() -> TuningProblem:
    """Return the problem of `a_tuning_run`, with sources left out to keep documents short."""
    catalog = shipped_catalog()
    accelerator = catalog.accelerator("mi355x").model_copy(update={"sources": {}})
    network = catalog.default_network_for("mi355x").model_copy(update={"sources": {}})
    return TuningProblem(
        model=catalog.model("tiny-quickstart"),
        sequence_length=128,
        global_batch_size=32,
        backend="builtin",
        implementation="torch",
        cluster=Cluster(nodes=1, gpus_per_node=8, accelerator=accelerator, network=network),
    )


def an_identity(**changes: Any) -> TrialIdentity:
    """Return the identity of the first attempt of trial t0012."""
    fields = {
        "run_uid": A_RUN.uid,
        "trial": "t0012",
        "attempt": 1,
        "kind": "profile",
        "config_digest": TrainingConfig().digest()[:16],
    }
    return TrialIdentity.model_validate(fields | changes)


def a_request(**identity: Any) -> TrialRequest:
    """Return a request of the default configuration."""
    return TrialRequest(
        identity=an_identity(**identity),
        problem=a_problem(),
        config=TrainingConfig(),
        device=ExpectedDevice(preset="mi355x", vendor="amd", architecture="gfx950", count=8),
        processes_per_node=8,
    )


def pod_options(trial: TrialSpec | None = None, pod: PodSpec | None = None) -> PodOptions:
    """Return options for eight MI355X."""
    return PodOptions(
        image="registry.example.com/trial:1",
        trial=trial or TrialSpec(),
        pod=pod or PodSpec(),
        gpus_per_node=8,
        pci_device_ids=("75a3", "75b3"),
    )


def a_job(
    conditions: list[Document] | None = None,
    annotations: Document | None = None,
    *,
    nodes: int = 1,
    queue: str | None = None,
) -> Document:
    """Return the trial Job as the API server returns it; a queue has not admitted it yet."""
    request = a_request(kind="measure" if nodes > 1 else "profile").model_copy(update={"nodes": nodes})
    job = trial_job(A_RUN, request, pod_options(pod=PodSpec(queue_name=queue)))
    job["metadata"]["creationTimestamp"] = CREATED
    job["metadata"]["annotations"] |= annotations or {}
    job["status"] = {"conditions": conditions or []}
    return job


def a_pod(
    state: Document | None = None,
    *,
    phase: str = "Pending",
    node: str = "",
    index: int = 0,
    started: bool = True,
    **status: Any,
) -> Document:
    """Return the Pod of `a_job`; `state` is that of its container, `started` what its startup probe says."""
    containers = [{"name": "trial", "state": state, "started": started}] if state else []
    annotations = {"batch.kubernetes.io/job-completion-index": str(index)}
    return {
        "metadata": {"name": f"pod-{index}", "creationTimestamp": CREATED, "labels": {}, "annotations": annotations},
        "spec": {"nodeName": node} if node else {},
        "status": {"phase": phase, "containerStatuses": containers, **status},
    }


def a_node(name: str = "gpu-1", *, gpus: int = 8, labels: Document | None = None, **spec: Any) -> Document:
    """Return a ready MI355X node."""
    return {
        "metadata": {"name": name, "labels": {"amd.com/gpu.device-id": "75a3"} if labels is None else labels},
        "spec": spec,
        "status": {
            "allocatable": {"amd.com/gpu": str(gpus)},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
