"""What a method may do: try a row and see a noisy speed. Called by every method.

A row that was tried, or whose group was, is answered free. Only rows that fit can be tried. In the
observation protocol each row is its own group; in the profile protocol rows with one profile key are a group.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from statistics import fmean

from tunewright.domain.config_batch import FloatArray, IntArray

Recommend = Callable[[], list[int]]
TOP = 3
"""Rows that a method names as its best after each trial: what the profile protocol measures."""


class BudgetUsed(Exception):
    """Every trial is used: raised out of a method that goes on."""


@dataclass
class Trials:
    """Trials of one method on one truth, and what it named as its best after each."""

    shown: FloatArray
    """What a trial of a row shows, without noise."""
    groups: IntArray
    noise: Callable[[int, int], float]
    """The factor of a reading of a group, by its number."""
    most: int
    readings: dict[int, list[float]] = field(default_factory=dict)
    """Readings by row, in the order of their first trial."""
    reused: int = 0
    history: list[list[int]] = field(default_factory=list)
    """The best rows after each trial, best first."""
    recommend: Recommend | None = None
    """How the method recommends; by default the best readings."""
    _groups_seen: set[int] = field(default_factory=set)

    @property
    def known(self) -> dict[int, float]:
        """The mean reading of each row."""
        return {row: fmean(values) for row, values in self.readings.items()}

    def try_row(self, row: int) -> float:
        """Return the reading of a row; raise `BudgetUsed` when that needs a trial more than there are."""
        if row not in self.readings:
            group = int(self.groups[row])
            is_new = group not in self._groups_seen
            self._read(row, 0, is_trial=is_new)
            self.reused += not is_new
        return fmean(self.readings[row])

    def repeat(self, row: int) -> None:
        """Spend a trial on another reading of a row."""
        self._read(row, len(self.readings[row]), is_trial=True)

    def after(self, trials: int) -> list[int]:
        """Return the best rows after some trials, or at the end of a method that stopped before."""
        return self.history[min(trials, len(self.history)) - 1]

    def _read(self, row: int, number: int, *, is_trial: bool) -> None:
        if is_trial and len(self.history) == self.most:
            raise BudgetUsed
        group = int(self.groups[row])
        self._groups_seen.add(group)
        self.readings.setdefault(row, []).append(float(self.shown[row]) * self.noise(group, number))
        best = self.recommend() if self.recommend else self._best_readings()
        if is_trial:
            self.history.append(best)
        else:
            self.history[-1] = best

    def _best_readings(self) -> list[int]:
        known = self.known
        return sorted(known, key=lambda row: -known[row])[:TOP]


def run(method: Callable[[Trials], None], trials: Trials) -> Trials:
    """Let a method use its trials."""
    with suppress(BudgetUsed):
        method(trials)
    return trials
