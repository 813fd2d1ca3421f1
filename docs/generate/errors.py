"""docs/reference/errors.md: the tree of errors, from `tunewright.errors`, and how each reaches a person."""

import inspect
from collections.abc import Iterator, Mapping

from docs.generate.markdown import code, page, table
from tunewright import errors

_INTRODUCTION = (
    "Every error that Tunewright raises on purpose. The command line prints it after `error:` and ends with exit code"
    " 2. Anything with a traceback is a fault of ours: please report it."
)
REACHES: Mapping[str, str] = {
    "TuningError": "as text",
    "InvalidInput": "one line for each problem: field, value, remedy; in a cluster `Accepted=False`",
    "IllegalConfig": "every launch rule that is broken; [the rules](rules.md)",
    "DoesNotFit": "the bytes by kind; `tunewright explain` itemises them",
    "CatalogError": "the catalog's file and field",
    "ProtocolError": "the trial fails as `ResultInvalid`, the run goes on",
    "LedgerError": "the first bad line; in a cluster the run is held as `LedgerUnreadable`",
    "AdvisorError": "the condition `AdvisorAvailable`; the surrogate goes on alone",
    "ClusterError": "the API server's words; in a cluster the run is held as `Blocked` and tried again",
    "Transient": "tried again after a while",
    "Conflict": "an object of that name belongs to something else: the message says whose",
    "Forbidden": "the permission that is missing",
}


def errors_page() -> str:
    """Return the page."""
    rows = [(code(kind.__name__), parent, _first_sentence(kind), REACHES[kind.__name__]) for kind, parent in _tree()]
    return page("Errors", _INTRODUCTION, table(("error", "is a", "means", "you see"), rows))


def _tree() -> Iterator[tuple[type, str]]:
    for kind in vars(errors).values():
        if inspect.isclass(kind) and issubclass(kind, errors.TuningError):
            parent = kind.__bases__[0]
            yield kind, code(parent.__name__) if parent is not Exception else ""


def _first_sentence(kind: type) -> str:
    return (inspect.getdoc(kind) or "").split("\n")[0].split(". ")[0].rstrip(".")
