"""A dimension that is split over ranks. Given to every layer; `parallel` makes it for real groups."""

from dataclasses import dataclass
from typing import Any

from tunewright_trial.failures import unsupported


@dataclass(frozen=True)
class Split:
    """`size` ranks share a dimension, this one is `rank`. Without a `group`, shapes are split and nothing is sent.

    The profile of one candidate runs without groups: it times a rank's own work, and the collectives by themselves.
    """

    size: int = 1
    rank: int = 0
    group: Any = None

    @property
    def communicates(self) -> bool:
        """Whether values really travel between ranks."""
        return self.group is not None and self.size > 1

    def share(self, width: int, what: str) -> int:
        """Return this rank's share of `width`; raise Unsupported where it does not divide."""
        if width % self.size:
            raise unsupported(f"{what} {width} is not divisible by {self.size} ranks")
        return width // self.size


WHOLE = Split()
