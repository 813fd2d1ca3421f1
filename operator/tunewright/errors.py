"""The errors of the project, in one tree. Imports nothing; details travel as plain values.

    TuningError
    ├── InvalidInput        the person can fix it: field, value, remedy
    ├── IllegalConfig       every violated launch rule, not the first
    ├── DoesNotFit          itemised bytes attached
    ├── CatalogError        a preset that is missing or malformed
    ├── ProtocolError       a trial document that is truncated, foreign or of another version
    ├── LedgerError         a ledger that cannot be read, with its line
    ├── AdvisorError        the LLM is down, slow, over budget or talks nonsense
    └── ClusterError        the Kubernetes API said no
        ├── Transient       worth another try
        ├── Conflict        somebody else owns the name
        └── Forbidden       permissions, quota or admission

Inside the core, "illegal" and "does not fit" are returned values; they become exceptions only at the boundary.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

LONGEST_SHOWN = 200
"""Characters of somebody else's text that a message repeats."""
_LONGEST_REMEDY = 2000


def printable(text: str, longest: int = LONGEST_SHOWN) -> str:
    r"""Return a text for one line of a terminal or a log: cut, and with control characters escaped.

    >>> printable("a\nb")
    'a\\nb'
    """
    cut = text if len(text) <= longest else f"{text[:longest]}... ({len(text)} characters)"
    return "".join(mark if mark.isprintable() else mark.encode("unicode_escape").decode() for mark in cut)


def shown_value(value: object) -> str:
    """Return a refused value as Python writes it, cut; some values are too large even for that."""
    try:
        return printable(repr(value))
    except (ValueError, RecursionError):  # thousands of digits, or nested without end
        return f"(a {type(value).__name__} too large to show)"


class TuningError(Exception):
    """Root of every error that this project raises on purpose."""


@dataclass(frozen=True)
class Problem:
    """One thing wrong with an input: where, what was there, what to do."""

    field: str
    value: object
    remedy: str

    def __str__(self) -> str:
        shown = f"{shown_value(self.value)}: {printable(self.remedy, _LONGEST_REMEDY)}"
        return f"{printable(self.field)}: {shown}" if self.field else shown


class InvalidInput(TuningError):
    """An input that its author can fix. Holds every problem found, not only the first."""

    def __init__(self, problems: Sequence[Problem] | Problem) -> None:
        self.problems = (problems,) if isinstance(problems, Problem) else tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))

    @classmethod
    def of(cls, field: str, value: object, remedy: str) -> "InvalidInput":
        """Build the error for a single problem."""
        return cls(Problem(field, value, remedy))


class IllegalConfig(TuningError):
    """A configuration that the launcher would refuse. `violations` maps each broken rule to its message."""

    def __init__(self, violations: Mapping[str, str], subject: str = "configuration") -> None:
        self.violations = dict(violations)
        lines = "\n".join(f"  {rule}: {message}" for rule, message in self.violations.items())
        super().__init__(f"{subject} breaks {len(self.violations)} rule(s):\n{lines}")


class DoesNotFit(TuningError):
    """A configuration that exceeds the device memory. `items` maps each kind of memory to its bytes."""

    def __init__(self, message: str, items: Mapping[str, float]) -> None:
        self.items = dict(items)
        super().__init__(message)


class CatalogError(TuningError):
    """A preset that is missing or malformed."""


class ProtocolError(TuningError):
    """A trial request or report that cannot be trusted."""


class LedgerError(TuningError):
    """A ledger that cannot be read or written. The message names the first bad line."""


class AdvisorError(TuningError):
    """The advisor gave no usable answer. `reason` is a condition reason, such as Unreachable."""

    def __init__(self, reason: str, message: str) -> None:
        self.reason = reason
        super().__init__(message)


class ClusterError(TuningError):
    """The Kubernetes API refused or failed."""


class Transient(ClusterError):
    """A failure that may pass: timeouts, 5xx, throttling."""


class Conflict(ClusterError):
    """An object under our name that is not ours, or a version conflict."""


class Forbidden(ClusterError):
    """Permissions, quota or an admission rule stand in the way."""
