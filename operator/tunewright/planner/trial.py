"""One trial of a run with all its attempts, as the ledger tells it. Made by `state`, read by every phase."""

from dataclasses import dataclass, field

from tunewright.domain.training_config import TrainingConfig
from tunewright.planner.decisions import Origin, StartTrial
from tunewright.planner.records import TrialFinished
from tunewright.trial_protocol.identity import TrialKind
from tunewright.trial_protocol.report import FailureClass, TrialReport


@dataclass
class Attempt:
    """One try at a trial. `finished` is None while it runs."""

    number: int
    reserved_gpu_seconds: float
    is_started: bool = False
    """Whether it was seen to exist: then it is never started again."""
    is_stopping: bool = False
    finished: TrialFinished | None = None


@dataclass
class Trial:
    """One trial with all its attempts."""

    start: StartTrial
    attempts: list[Attempt] = field(default_factory=list)
    place: int = 0
    """Of its proposal among those of the run: trials are in this order."""

    @property
    def name(self) -> str:
        """Its identifier, such as t0007."""
        return self.start.trial

    @property
    def kind(self) -> TrialKind:
        """Profile or measure."""
        return self.start.kind

    @property
    def config(self) -> TrainingConfig:
        """What is tried."""
        return self.start.config

    @property
    def origin(self) -> Origin:
        """Who proposed it."""
        return self.start.origin

    @property
    def running(self) -> bool:
        """Whether an attempt is started and not finished."""
        return self.attempts[-1].finished is None

    @property
    def finished(self) -> TrialFinished | None:
        """The end of the last attempt."""
        return self.attempts[-1].finished

    @property
    def report(self) -> TrialReport | None:
        """The report of a trial that succeeded."""
        return self.finished.report if self.finished is not None and self.failure is None else None

    @property
    def failure(self) -> FailureClass | None:
        """Why the last attempt failed; None while it runs or when it succeeded."""
        return failure_of(self.finished) if self.finished is not None else None

    @property
    def own_attempts(self) -> int:
        """Attempts that were not interrupted from outside: these use up the attempts that a trial has."""
        ends = [attempt.finished.failure for attempt in self.attempts if attempt.finished is not None]
        return len(self.attempts) - ends.count("Interrupted")

    @property
    def gpu_seconds(self) -> float:
        """What all attempts used; those that still run count with their reservation."""
        return sum(
            attempt.reserved_gpu_seconds if attempt.finished is None else attempt.finished.gpu_seconds
            for attempt in self.attempts
        )


def failure_of(finished: TrialFinished) -> FailureClass | None:
    """Return why an attempt failed; None when it succeeded."""
    return finished.failure or (finished.report.failure if finished.report else "ResultMissing")
