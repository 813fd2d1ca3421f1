"""What a scenario found: each figure with its target and verdict. Pure; used by every scenario and the main program."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

Buckets = Sequence[tuple[float, float]]
"""A histogram as Prometheus has it: upper bounds, the last infinite, each with the count of samples up to it."""


@dataclass(frozen=True)
class Figure:
    """One figure. `limit` is the most that the target allows; None: printed for comparison, without a verdict."""

    scenario: str
    name: str
    value: float
    unit: str
    limit: float | None = None
    note: str = ""

    @property
    def verdict(self) -> str:
        """Say whether the target is met; a figure that is not a number never meets it."""
        if self.limit is None:
            return ""
        return "met" if self.value <= self.limit else "MISSED"

    def to_json(self) -> dict[str, object]:
        """Return the figure as a document."""
        value = self.value if math.isfinite(self.value) else None
        return {
            "scenario": self.scenario,
            "name": self.name,
            "value": value,
            "unit": self.unit,
            "limit": self.limit,
            "verdict": self.verdict,
            "note": self.note,
        }


def print_figures(figures: Sequence[Figure]) -> None:
    """Print one line for each figure."""
    for item in figures:
        target = "" if item.limit is None else f"target <= {item.limit:g}"
        words = f"{item.scenario:10} {item.name:44} {item.value:>10.4g} {item.unit:9} {target:16} {item.verdict:7}"
        print(f"{words} {item.note}".rstrip(), flush=True)


def quantile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that `share` of all do not exceed; not a number where there are none.

    >>> quantile([3.0, 1.0, 2.0, 4.0], 0.5), quantile([3.0, 1.0], 0.99)
    (2.0, 3.0)
    """
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else math.nan


def bucket_quantile(buckets: Buckets, share: float) -> float:
    """Return the quantile of a histogram, linear within its bucket, as PromQL's histogram_quantile does.

    Not a number where nothing was sampled; the last finite bound where the quantile is beyond it.

    >>> bucket_quantile([(0.1, 50.0), (0.2, 100.0), (math.inf, 100.0)], 0.75)
    0.15000000000000002
    """
    total = buckets[-1][1] if buckets else 0.0
    if not total:
        return math.nan
    below, passed = 0.0, 0.0
    for bound, count in buckets:
        if count >= share * total:
            return below if math.isinf(bound) else below + (bound - below) * (share * total - passed) / (count - passed)
        below, passed = bound, count
    return math.nan
