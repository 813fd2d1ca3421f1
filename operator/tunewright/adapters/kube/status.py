"""The status document of a run, from the planner's summary and what is seen in the cluster. Pure; once a pass."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tunewright.adapters.kube.attempts import AttemptView
from tunewright.adapters.kube.conditions import PENDING, Wanted, updated_conditions
from tunewright.adapters.kube.inventory import PREWARMING, Capacity
from tunewright.adapters.kube.labels import RUN
from tunewright.adapters.kube.names import RunReference, result_name
from tunewright.adapters.kube.run_conditions import REMEDIES, SuspendedBy, run_conditions
from tunewright.adapters.kube.spec.status import MAX_RECENT_TRIALS
from tunewright.adapters.kube.status_figures import (
    axes_document,
    best_document,
    bias_document,
    costs_documents,
    trials_document,
)
from tunewright.planner.decisions import Phase
from tunewright.planner.records import Header
from tunewright.planner.settings import PlannerSettings
from tunewright.planner.summary import Summary

Document = dict[str, Any]
BlockedReason = Literal["LedgerUnreadable", "Blocked"]
"""Reasons of Finished=False that people must act on; any other is the state that the run is in."""


@dataclass(frozen=True)
class RunView:
    """Everything that the status of an accepted run is made from."""

    run: RunReference
    header: Header
    settings: PlannerSettings
    summary: Summary
    phase: Phase | None
    attempts: Sequence[AttemptView]
    ledger_shards: int
    ledger_digest: str
    suspended: SuspendedBy | None = None
    capacity: Capacity | None = None


def run_status(view: RunView, previous: Mapping[str, Any], generation: int, now: str) -> Document:
    """Return the whole status of an accepted run."""
    summary = view.summary
    wanted = run_conditions(
        summary,
        view.settings,
        view.phase,
        suspended=view.suspended,
        reading=view.capacity or _earlier_capacity(previous),
    )
    forecast, spent = costs_documents(summary)
    document = {
        "answer": _answer(view),
        "observedGeneration": generation,
        "state": _state(view),
        "startTime": view.header.at,
        "conditions": updated_conditions(previous.get("conditions", ()), wanted, generation, now),
        "forecast": forecast,
        "spent": spent,
        "space": summary.space.to_json(),
        "trials": trials_document(summary.counters),
        "best": best_document(summary),
        "bias": bias_document(summary.bias),
        "axes": axes_document(summary.axes),
        "recentTrials": [_recent(attempt) for attempt in view.attempts[-MAX_RECENT_TRIALS:]],
        "results": _results(view),
    }
    return {key: value for key, value in document.items() if value not in (None, {}, [])}


def refused_status(reason: str, message: str, previous: Mapping[str, Any], generation: int, now: str) -> Document:
    """Return the status of a run that is not accepted. What an earlier generation found stays."""
    wanted = [Wanted("Accepted", "False", reason, message), Wanted("Finished", "False", "NotAccepted")]
    kept = {key: value for key, value in previous.items() if key not in ("observedGeneration", "conditions", "answer")}
    return {
        "state": "Pending",
        **kept,
        "answer": f"not accepted: {message}"[:1000],
        "observedGeneration": generation,
        "conditions": updated_conditions(previous.get("conditions", ()), wanted, generation, now),
    }


def blocked_status(
    message: str, previous: Mapping[str, Any], generation: int, now: str, reason: BlockedReason
) -> Document:
    """Return the status of a run that cannot go on for now: it is tried again, and people can see why.

    What it found so far stays, and it is not finished: a ledger that is restored goes on where it was.
    """
    wanted = [Wanted("Accepted", "True", "Valid"), Wanted("Finished", "False", reason, message)]
    return {
        "state": "Pending",
        **previous,
        "answer": f"blocked: {message}"[:1000],
        "observedGeneration": generation,
        "conditions": updated_conditions(previous.get("conditions", ()), wanted, generation, now),
    }


def is_over(run: Mapping[str, Any]) -> bool:
    """Tell whether the status of a TuningRun says that exactly this generation is finished."""
    status = run.get("status") or {}
    finished = any(item["type"] == "Finished" and item["status"] == "True" for item in status.get("conditions", ()))
    return finished and status.get("observedGeneration") == run["metadata"]["generation"]


def _answer(view: RunView) -> str:
    """Say what is found, or what the run waits for while nothing is."""
    if view.phase is None and view.suspended:
        return f"suspended before the first trial: {REMEDIES[view.suspended]} to start"
    if view.phase is None and view.capacity is not None and view.capacity.available is False:
        return f"waiting for nodes: {view.capacity.message}"[:1000]
    if view.phase is None and view.capacity is not None and view.capacity.reason == PREWARMING:
        return f"pulling the image: {view.capacity.message}"[:1000]
    return view.summary.answer


def _state(view: RunView) -> str:
    return "Suspended" if view.suspended and view.summary.finish_reason is None else view.summary.state


def _earlier_capacity(previous: Mapping[str, Any]) -> Capacity | None:
    """Capacity is looked at before the first trial and where one does not start: other passes repeat what was found."""
    answers = {"True": True, "False": False}
    for condition in previous.get("conditions", ()):
        if condition["type"] == "CapacityAvailable" and condition["reason"] not in (PENDING, PREWARMING):
            return Capacity(answers.get(condition["status"]), condition["reason"], condition["message"])
    return None


def _recent(attempt: AttemptView) -> Document:
    seen = attempt.observation
    ended = seen.failure or "Succeeded"
    return {
        "trial": seen.trial,
        "attempt": seen.attempt,
        "kind": "Profile" if attempt.kind == "profile" else "Validation",
        "phase": ended if seen.state == "finished" else seen.state.capitalize(),
        "job": attempt.job_name,
        "node": seen.node,
    }


def _results(view: RunView) -> Document:
    finished = view.summary.finish_reason is not None
    return {
        **({"configMap": result_name(view.run)} if finished else {}),
        "ledgerSelector": f"{RUN}={view.run.name}",
        "ledgerShards": view.ledger_shards,
        "ledgerDigest": view.ledger_digest,
        "simulated": view.summary.simulated,
        "operatorVersion": view.header.operator_version,
        "catalogVersion": view.header.catalog_version,
    }
