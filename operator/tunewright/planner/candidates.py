"""What is known of configurations that were tried: their figures of each kind, and which are the best. Values.

Made by `evaluation`; read by every phase, by the summary, the briefing and the report.
"""

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from tunewright.domain.training_config import TrainingConfig
from tunewright.performance.projection import Projection
from tunewright.planner.decisions import Origin


@dataclass(frozen=True)
class Interval:
    """A range of a figure."""

    low: float
    high: float


@dataclass(frozen=True)
class Measurement:
    """All successful repeats of one configuration."""

    trial: str
    tokens_per_second_per_gpu: float
    """Mean of the repeats' medians."""
    interval: Interval
    repeats: int
    nodes: int
    peak_memory_bytes: int
    simulated: bool


@dataclass(frozen=True)
class Bias:
    """projected / measured − 1, as a share."""

    mean: float
    samples: int
    interval: Interval | None
    """Lowest and highest; None with one sample."""


@dataclass(frozen=True)
class Candidate:
    """One configuration that was tried, at least by reusing a profile."""

    config: TrainingConfig
    row: int | None
    origin: Origin
    trial: str
    """The trial whose profile it is projected from; the first measurement where there is no profile."""
    estimated: float
    projection: Projection | None
    interval: Interval | None
    """Of the projection: from the bias-corrected figure's lower end to the uncorrected one's upper end."""
    corrected: float | None
    """The projection, corrected by the bias of this run."""
    reused: bool
    measurement: Measurement | None
    bias: float | None = None
    """projected / measured − 1 of this configuration, on the nodes of the measurement."""
    place: int = 0
    """Of its proposal among those of the run."""

    @property
    def projected(self) -> float | None:
        """Tokens/s/GPU by projection, uncorrected."""
        return self.projection.tokens_per_second_per_gpu if self.projection else None


@dataclass(frozen=True)
class Evaluation:
    """Every candidate in the order of its proposal."""

    candidates: tuple[Candidate, ...]
    bias: Bias | None
    baseline_config: TrainingConfig

    @cached_property
    def by_config(self) -> dict[TrainingConfig, Candidate]:
        """Candidates by configuration."""
        return {candidate.config: candidate for candidate in self.candidates}

    @property
    def baseline(self) -> Candidate | None:
        """The baseline, once it is known."""
        return self.by_config.get(self.baseline_config)

    @cached_property
    def by_projection(self) -> list[Candidate]:
        """Projected candidates, best first; equal ones in the order of their proposal."""
        projected = [candidate for candidate in self.candidates if candidate.projected is not None]
        return sorted(projected, key=_by_projection)

    @cached_property
    def best_by_round(self) -> dict[int, float]:
        """The best projection of each round, in tokens/s/GPU; the seed phase is round 0."""
        best: dict[int, float] = {}
        for candidate in self.candidates:
            _note_best(best, candidate)
        return best

    @property
    def best_projected(self) -> Candidate | None:
        """The incumbent."""
        return self.by_projection[0] if self.by_projection else None

    @cached_property
    def best_measured(self) -> Candidate | None:
        """The fastest that ran as a whole job."""
        measured = [candidate for candidate in self.candidates if candidate.measurement]
        return max(measured, key=_measured_value, default=None)

    @property
    def winner(self) -> Candidate | None:
        """What the run recommends: the best measured, or, before anything is measured, the best projected."""
        return self.best_measured or self.best_projected

    def with_projected(self, added: Sequence[Candidate]) -> "Evaluation":
        """Return this evaluation with candidates that were never measured; what follows from all of them goes along."""
        candidates, by_projection = list(self.candidates), list(self.by_projection)
        by_config, best = dict(self.by_config), dict(self.best_by_round)
        for candidate in added:
            insort(candidates, candidate, key=_by_place)
            by_config[candidate.config] = candidate
            _note_best(best, candidate)
            if candidate.projected is not None:
                insort(by_projection, candidate, key=_by_projection)
        grown = Evaluation(tuple(candidates), self.bias, self.baseline_config)
        known = {"by_config": by_config, "by_projection": by_projection, "best_by_round": best}
        vars(grown).update(known, best_measured=self.best_measured)  # as if they had been asked for
        return grown


def _measured_value(candidate: Candidate) -> float:
    return candidate.measurement.tokens_per_second_per_gpu if candidate.measurement else 0.0


def _by_place(candidate: Candidate) -> int:
    return candidate.place


def _by_projection(candidate: Candidate) -> tuple[float, int]:
    return -(candidate.projected or 0.0), candidate.place


def _note_best(best: dict[int, float], candidate: Candidate) -> None:
    """Keep the best projection of each round; what is projected for a measurement comes after all rounds."""
    if candidate.origin.phase != "validate":
        number = candidate.origin.round
        best[number] = max(best.get(number, 0.0), candidate.projected or 0.0)
