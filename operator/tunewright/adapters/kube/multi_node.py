"""What a measurement on several nodes needs: an indexed Job with one Pod a node, and the Service by which they meet.

Pure documents; called by `manifests` and `trials`. Pod 0's name in the headless Service is known before the Pod is
there, so every Pod is told where to call; the trial program waits until all have called (`gathering`) and then writes
the file that the startup probe looks for. Until then a Pod counts as not started.
"""

from typing import Any

from tunewright.adapters.kube import labels
from tunewright.adapters.kube.names import RunReference, nodes_service_name

Document = dict[str, Any]

RENDEZVOUS_PORT = 29500
MET_FILE = "/tmp/.tunewright-met"
_PROBE_SECONDS = 5
_GRACE_SECONDS = 60
"""The operator's start deadline goes first: it knows which Pod is missing, and why."""


def nodes_service(run: RunReference) -> Document:
    """Return the headless Service that gives a run's measuring Pods names, ready or not. It goes with the run."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": nodes_service_name(run),
            "namespace": run.namespace,
            "labels": labels.run_labels(run, "nodes"),
            "ownerReferences": [labels.owner_reference(run)],
        },
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {labels.RUN_UID: run.uid, labels.TRIAL_KIND: "measure"},
            "ports": [{"name": "rendezvous", "port": RENDEZVOUS_PORT}],
        },
    }


def over_nodes(job: Document, run: RunReference, nodes: int, start_deadline_seconds: int) -> Document:
    """Return a trial Job with one Pod on each of `nodes`. Variables that the user sets are left as they are.

    Asking for all accelerators of a node keeps the Pods apart. The kubelet gives up on the probe only when the Job's
    own deadline would have passed: the operator keeps the clock.
    """
    spec, template = job["spec"], job["spec"]["template"]
    container = template["spec"]["containers"][0]
    given = {variable["name"] for variable in container["env"]}
    rendezvous = _environment(job["metadata"]["name"], run, start_deadline_seconds)
    probe = {
        "exec": {"command": ["test", "-e", MET_FILE]},
        "periodSeconds": _PROBE_SECONDS,
        "failureThreshold": -(-spec["activeDeadlineSeconds"] // _PROBE_SECONDS),
    }
    container = {
        **container,
        "env": [*({"name": k, "value": v} for k, v in rendezvous.items() if k not in given), *container["env"]],
        "startupProbe": probe,
    }
    pod = {**template["spec"], "subdomain": nodes_service_name(run), "containers": [container]}
    indexed = {"completions": nodes, "parallelism": nodes, "completionMode": "Indexed"}
    return {**job, "spec": {**spec, **indexed, "template": {**template, "spec": pod}}}


def _environment(job_name: str, run: RunReference, start_deadline_seconds: int) -> dict[str, str]:
    """Return what torchrun would set. The node's rank is JOB_COMPLETION_INDEX, which the Job controller sets."""
    return {
        "MASTER_ADDR": f"{job_name}-0.{nodes_service_name(run)}",
        "MASTER_PORT": str(RENDEZVOUS_PORT),
        "TUNEWRIGHT_START_SECONDS": str(start_deadline_seconds + _GRACE_SECONDS),
        "TUNEWRIGHT_MET_FILE": MET_FILE,
    }
