"""A TuningRun in every state that it can have, its status as the operator writes it.

Used by the tests of what reads a status: Argo CD's health and actions.
"""

from collections.abc import Mapping
from typing import Any

from tests.support.kube_documents import a_tuning_run
from tests.unit.adapters.kube.test_status import a_summary, a_view
from tunewright.adapters.kube.inventory import PREWARMING, Capacity
from tunewright.adapters.kube.labels import SUSPEND
from tunewright.adapters.kube.status import blocked_status, refused_status, run_status
from tunewright.planner.summary import Summary

Document = dict[str, Any]

GENERATION = 3
NOW = "2026-11-30T06:00:00Z"
TRACKED = {"argocd.argoproj.io/tracking-id": "runs:tunewright.dev/TuningRun:team-a/tiny"}
SHOWN = ("answer", "observedGeneration", "state", "conditions")
PULLING = Capacity(True, PREWARMING, "the trial image is on 1 of 2 node(s), not on b")
FULL = Capacity(False, "NotEnoughNodes", "1 node(s) with 8 free amd.com/gpu are needed, 0 found")


def states() -> Mapping[str, Document]:
    """Return the runs by the name of their state."""
    validating = a_status()
    return {
        "new": a_run(None),
        "pending": a_run(a_status(nothing_found(), phase=None)),
        "waiting-for-nodes": a_run(a_status(nothing_found(), phase=None, capacity=FULL)),
        "prewarming": a_run(a_status(nothing_found(), phase=None, capacity=PULLING)),
        "sweeping": a_run(a_status(a_summary(state="Sweeping"), phase="seed")),
        "exploring": a_run(a_status(a_summary(state="Exploring"), phase="explore")),
        "exploring-without-room": a_run(
            a_status(
                a_summary(state="Exploring"),
                phase="explore",
                capacity=Capacity(False, "QuotaExceeded", "t0012 waits: exceeded quota: gpus"),
            )
        ),
        "validating": a_run(validating),
        "new-generation": a_run(validating, generation=GENERATION + 1),
        "suspended-before-start": a_run(
            a_status(nothing_found(), phase=None, suspended="BySpec"), spec={"suspend": True}
        ),
        "suspended-by-annotation": a_run(a_status(suspended="ByAnnotation"), annotations={SUSPEND: "true"}),
        "succeeded": a_run(a_status(ended("Succeeded", "Converged", "explored until 3 rounds without improvement"))),
        "succeeded-by-budget": a_run(
            a_status(ended("Succeeded", "BudgetExhausted", "explored until the budget is used"))
        ),
        "stopped": a_run(a_status(ended("Stopped", "Stopped", "spec.stop is set")), spec={"stop": True}),
        "stopped-early": a_run(
            a_status(nothing_found(state="Stopped", finish_reason="Stopped", finish_message="spec.stop is set")),
            spec={"stop": True},
        ),
        "failed": a_run(a_status(ended("Failed", "Failed", "3 trials in a row ended with RcclFailure"))),
        "not-accepted": a_run(refused_status("Illegal", "spec.baseline: 3: does not divide 8", {}, GENERATION, NOW)),
        "not-accepted-any-more": a_run(
            refused_status("Illegal", "spec.budget.maxLLMCostUSD: 5: needs spec.llm.price", validating, GENERATION, NOW)
        ),
        "ledger-unreadable": a_run(
            blocked_status("shard 2, line 3: not JSON", validating, GENERATION, NOW, "LedgerUnreadable")
        ),
        "blocked": a_run(blocked_status("jobs is forbidden", {}, GENERATION, NOW, "Blocked")),
    }


def a_run(
    status: Document | None,
    *,
    generation: int = GENERATION,
    spec: Document | None = None,
    annotations: Mapping[str, str] = TRACKED,
) -> Document:
    """Return the run as the API server would, with what tells states apart."""
    document = a_tuning_run(**(spec or {}))
    document["metadata"] |= {"namespace": "team-a", "generation": generation, "annotations": dict(annotations)}
    return document if status is None else document | {"status": _shortened(status)}


def a_status(summary: Summary | None = None, **view: Any) -> Document:
    """Return the status of an accepted run."""
    return run_status(a_view(summary=summary or a_summary(), **view), {}, GENERATION, NOW)


def nothing_found(**changes: Any) -> Summary:
    """Return the summary of a run without a single projection."""
    fields = {"state": "Pending", "answer": "nothing is known yet", "best_projected": None, "best_measured": None}
    return a_summary(**(fields | changes))


def ended(state: str, reason: str, message: str) -> Summary:
    """Return the summary of a run that is over."""
    return a_summary(state=state, finish_reason=reason, finish_message=message)


def _shortened(status: Document) -> Document:
    """Leave out figures that no state depends on, so that they may change without changing the states."""
    kept = {key: status[key] for key in SHOWN if key in status}
    if "trials" in status:
        kept["trials"] = {"summary": status["trials"]["summary"]}
    if "best" in status:
        kept["best"] = {kind: {"trial": best["trial"]} for kind, best in status["best"].items()}
    return kept
