"""What becomes of the Jobs of ended trials, once the ledger has their results. Pure; called by `trials`."""

from collections.abc import Mapping, Sequence
from typing import Literal

from tunewright.adapters.kube.attempts import AttemptView
from tunewright.adapters.kube.spec.search import ResultsSpec
from tunewright.trial_protocol.report import ENDED_BY_DRIVER, FailureClass

Ended = Mapping[tuple[str, int], FailureClass | None]
"""How attempts ended by what the ledger says, in the order in which they did."""
Disposal = int | None | Literal["delete"]
"""The lifetime that a Job is to have from its end on, or its deletion: a suspended Job never ends by itself."""


def disposals(views: Sequence[AttemptView], ended: Ended, results: ResultsSpec) -> dict[str, Disposal]:
    """Return what is to change, by name of the Job. What the ledger does not know of yet is not touched."""
    kept = _latest_failed(ended, results.keep_failed_trials)
    wanted: dict[str, Disposal] = {}
    for view in views:
        key = view.observation.trial, view.observation.attempt
        if key not in ended:
            continue
        lifetime = None if key in kept else results.trial_ttl_seconds_after_finished
        if view.is_suspended and lifetime is not None:
            wanted[view.job_name] = "delete"
        elif view.lifetime_seconds != lifetime:
            wanted[view.job_name] = lifetime
    return wanted


def _latest_failed(ended: Ended, count: int) -> set[tuple[str, int]]:
    failed = [key for key, failure in ended.items() if failure is not None and failure not in ENDED_BY_DRIVER]
    return set(failed[len(failed) - count :] if count < len(failed) else failed)
