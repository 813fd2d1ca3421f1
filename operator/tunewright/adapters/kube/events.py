"""Kubernetes Events for people: one for each transition, never for each pass. Called by the controller."""

import hashlib
import logging

from tunewright.adapters.kube.client import EVENTS, Document, KubeClient
from tunewright.adapters.kube.names import RunReference
from tunewright.adapters.kube.spec.tuning_run import API_VERSION, KIND
from tunewright.errors import ClusterError, Conflict

_MAX_MESSAGE = 1000
_log = logging.getLogger(__name__)


def transition_event(run: RunReference, reason: str, message: str, *, warning: bool, at: str) -> Document:
    """Return the Event of one transition. Its name follows from its content, so that a repeat is a conflict."""
    digest = hashlib.sha256(f"{run.uid}/{reason}/{message}".encode()).hexdigest()[:16]
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{run.name}.{digest}", "namespace": run.namespace},
        "involvedObject": {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "namespace": run.namespace,
            "name": run.name,
            "uid": run.uid,
        },
        "reason": reason,
        "message": message[:_MAX_MESSAGE],
        "type": "Warning" if warning else "Normal",
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
        "source": {"component": "tunewright"},
        "reportingComponent": "tunewright.dev/operator",
        "reportingInstance": "tunewright",
    }


async def post(client: KubeClient, event: Document) -> None:
    """Write an event. One that was written before is fine, and one that cannot be written stops nothing."""
    try:
        await client.create(EVENTS, event["metadata"]["namespace"], event)
    except Conflict:
        return
    except ClusterError as error:
        _log.warning("the event %s could not be written: %s", event["reason"], error)
