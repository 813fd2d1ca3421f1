"""docs/reference/failure-classes.md: how trials fail, from the protocol's own list."""

from docs.generate.markdown import code, page, table
from tunewright.trial_protocol.failure_guide import FAILURE_GUIDE
from tunewright.trial_protocol.report import CONFIGURATION_FAILURES, ENDED_BY_DRIVER, RETRIED_FAILURES, FailureClass

_INTRODUCTION = (
    "A trial that fails has one class. `status.trials.failedByClass` counts them, `status.trials.lastFailure` has the"
    " latest with its message, and `tunewright why run.jsonl TRIAL` tells one of them."
)
_KINDS = (
    (
        "Facts about the configuration",
        "They feed the search, are never tried again, and do not count as failed trials of the budget.",
        CONFIGURATION_FAILURES,
    ),
    (
        "Faults of the place",
        "Tried again, up to three attempts a trial, on another node if there is one.",
        RETRIED_FAILURES,
    ),
    ("Ended on purpose", "Nobody's fault.", ENDED_BY_DRIVER),
)
_REST = ("What the setup lacks", "Not tried again: another attempt would meet the same. Each counts as a failed trial.")


def failures_page() -> str:
    """Return the page: one table for each kind."""
    known = frozenset[FailureClass]().union(*(classes for _, _, classes in _KINDS))
    kinds = [*_KINDS[:2], (*_REST, frozenset(FAILURE_GUIDE) - known), _KINDS[2]]
    return page("Failure classes", _INTRODUCTION, *(_kind(*kind) for kind in kinds))


def _kind(title: str, what: str, classes: frozenset[FailureClass]) -> str:
    rows = [(code(name), guide.meaning, guide.remedy) for name, guide in FAILURE_GUIDE.items() if name in classes]
    return f"## {title}\n\n{what}\n\n{table(('class', 'means', 'what to do'), rows)}"
