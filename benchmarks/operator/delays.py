"""How long ended trials waited for the operator: from their Pods' ends to the ledger. Pure; called by `many_runs`."""

from collections.abc import Iterator, Mapping
from datetime import datetime

from tunewright.planner.records import TrialFinished


def decision_delays(
    recorded: list[TrialFinished], jobs: Mapping[tuple[str, int], str], ends: Mapping[str, float]
) -> Iterator[float]:
    """Yield the seconds from when an attempt could be recorded to when it was.

    The ledger has attempts in the order in which they were started, so one could be recorded when it and all before
    it had ended.
    """
    latest = 0.0
    for record in recorded:
        ended = ends.get(jobs[record.trial, record.attempt])
        if ended is None:  # the operator ended it, or its Pod never ran
            continue
        latest = max(latest, ended)
        yield datetime.fromisoformat(record.at).timestamp() - latest
