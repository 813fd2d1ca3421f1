"""What attempts that do not start say about the capacity of the cluster. Pure; called by the controller."""

from collections.abc import Mapping, Sequence
from typing import Any

from tunewright.adapters.kube.attempts import AttemptView
from tunewright.adapters.kube.conditions import status_of
from tunewright.adapters.kube.inventory import Capacity
from tunewright.adapters.kube.trials import PATIENCE_SECONDS
from tunewright.trial_protocol.report import FailureClass

_REASONS: Mapping[FailureClass, str] = {
    "QuotaExceeded": "QuotaExceeded",
    "Unschedulable": "NotEnoughNodes",
    "AdmissionDenied": "AdmissionDenied",
}


def capacity_by_attempts(views: Sequence[AttemptView], status: Mapping[str, Any]) -> Capacity | None:
    """Return what keeps an attempt from starting, or that one runs after all; None where nothing is new."""
    for view in views:
        waits = view.waits_for
        if waits is not None and view.observation.queued_seconds > PATIENCE_SECONDS and waits.failure in _REASONS:
            reason = "Queued" if view.is_suspended else _REASONS[waits.failure]
            return Capacity(False, reason, f"{view.observation.trial} waits: {waits.message}"[:1000])
    running = next((view.observation for view in views if view.observation.state == "running"), None)
    if running is not None and status_of(status.get("conditions", ()), "CapacityAvailable") == "False":
        return Capacity(True, "NodesFound", f"{running.trial} runs on {running.node}")
    return None
