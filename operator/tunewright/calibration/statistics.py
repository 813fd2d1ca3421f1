"""Statistics of assessed rows: errors, ranking inside groups, coverage. Called by `document` and the command line."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tunewright.calibration.assessment import AssessedRow

LEAST_GROUP = 3
"""Rows that a group needs: two alone rank either right or wrong."""


@dataclass(frozen=True)
class Errors:
    """Absolute relative errors, as fractions."""

    count: int
    median: float
    mean: float
    p90: float
    max: float

    @classmethod
    def of(cls, errors: Sequence[float]) -> "Errors":
        """Summarise errors; no rows give zeros."""
        if not errors:
            return cls(0, 0.0, 0.0, 0.0, 0.0)
        values = np.asarray(errors)
        return cls(
            len(errors),
            float(np.median(values)),
            float(values.mean()),
            float(np.quantile(values, 0.9)),
            float(values.max()),
        )

    def to_json(self) -> dict[str, float]:
        """Return the fields."""
        return {"count": self.count, "median": self.median, "mean": self.mean, "p90": self.p90, "max": self.max}


@dataclass(frozen=True)
class Ranking:
    """How well estimates order the rows of a group; means over groups, as fractions."""

    count: int
    spearman_mean: float
    regret_mean: float
    regret_max: float


def timed(rows: Sequence[AssessedRow]) -> list[AssessedRow]:
    """Return the rows with a measured step time."""
    return [row for row in rows if row.row.step_seconds]


def errors_by(rows: Sequence[AssessedRow], key: Callable[[AssessedRow], str]) -> dict[str, Errors]:
    """Return the errors of step time of each class, classes in alphabetical order."""
    classes: dict[str, list[float]] = defaultdict(list)
    for row in timed(rows):
        classes[key(row)].append(row.error)
    return {name: Errors.of(classes[name]) for name in sorted(classes)}


def ranking(rows: Sequence[AssessedRow]) -> Ranking:
    """Compare the order of estimates and measurements inside every group with enough different configurations.

    Regret is what the configuration with the least estimate costs over the fastest measured one.
    """
    groups: dict[tuple[object, ...], list[AssessedRow]] = defaultdict(list)
    for row in timed(rows):
        groups[row.row.group].append(row)
    spearmans, regrets = [], []
    for members in groups.values():
        if len({row.row.config for row in members}) < LEAST_GROUP:
            continue
        measured = np.array([row.row.step_seconds for row in members], dtype=np.float64)
        estimated = np.array([row.estimated_seconds for row in members])
        spearmans.append(spearman(estimated, measured))
        regrets.append(float(measured[estimated.argmin()] / measured.min() - 1))
    if not spearmans:
        return Ranking(0, 0.0, 0.0, 0.0)
    return Ranking(len(spearmans), float(np.mean(spearmans)), float(np.mean(regrets)), max(regrets))


def spearman(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Return Spearman's rank correlation, ties at their mean rank; 0 where one side is constant."""
    ranks = [_ranks(values) - (len(values) - 1) / 2 for values in (first, second)]
    scale = float(np.sqrt((ranks[0] ** 2).sum() * (ranks[1] ** 2).sum()))
    return float((ranks[0] * ranks[1]).sum() / scale) if scale else 0.0


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    _, index, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    means: NDArray[np.float64] = (ends - counts + ends - 1)[index.reshape(-1)] / 2
    return means


def coverage(rows: Sequence[AssessedRow]) -> float:
    """Return the share of timed rows inside their interval; 0 without rows."""
    chosen = timed(rows)
    return sum(row.is_covered for row in chosen) / len(chosen) if chosen else 0.0


def memory_errors(rows: Sequence[AssessedRow]) -> dict[str, Errors]:
    """Return absolute relative errors of memory by the kind that was measured, and over all kinds as `all`."""
    kinds: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        if row.estimated_bytes is not None and row.row.memory_bytes:
            error = abs(row.estimated_bytes / row.row.memory_bytes - 1)
            kinds[row.row.memory_kind].append(error)
            kinds["all"].append(error)
    return {kind: Errors.of(kinds[kind]) for kind in sorted(kinds)}
