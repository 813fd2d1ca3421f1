"""What drives a run needs from the world: trials, an advisor, a ledger, a clock.

`engine` calls these; `adapters` implement them (Kubernetes Jobs, local processes, a simulation; DSPy; ConfigMaps or a
file). Foreign exceptions never cross: adapters raise `TuningError`s.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from tunewright.planner.records import Advice, Record
from tunewright.trial_protocol.report import FailureClass, TrialReport
from tunewright.trial_protocol.request import TrialRequest


@dataclass(frozen=True)
class TrialObservation:
    """What is seen of one attempt now. `report` is already checked against the identity of its request."""

    trial: str
    attempt: int
    state: Literal["queued", "running", "finished"]
    report: TrialReport | None = None
    failure: FailureClass | None = None
    message: str = ""
    node: str = ""
    recorded_from: str = ""
    """The trial of an earlier ledger that answered, where no trial was run."""
    gpu_seconds: float = 0.0
    queued_seconds: float = 0.0


class Trials(Protocol):
    """Where trials run."""

    async def start(self, request: TrialRequest) -> None:
        """Start one attempt. Starting the same attempt again changes nothing."""

    async def adopt(self, request: TrialRequest) -> None:
        """Take over an attempt that an earlier process started and that is not observed: never run it again.

        From then on it is observed: by what is left of it, or as finished with NodeLost or Interrupted.
        """

    async def observe(self) -> Sequence[TrialObservation]:
        """Return every attempt of this run that is known, finished ones included until they are forgotten."""

    async def stop(self, trial: str, attempt: int) -> None:
        """End one attempt. Ending one that is not there changes nothing."""


@dataclass(frozen=True)
class AdviceRequest:
    """What the advisor is told. `context` is plain JSON made by `planner.briefing`; nothing else leaves the core."""

    round: int
    proposals: int
    max_output_tokens: int
    context: Mapping[str, Any] = field(default_factory=dict)
    max_calls: int = 1  # requests that this round may send, retries and a repair included
    reserved_tokens: int | None = None  # prompt and answer, over all calls; None: nobody counts


class Advisor(Protocol):
    """Who proposes configurations. Never raises for a bad answer: the outcome says what happened."""

    async def ask(self, request: AdviceRequest) -> Advice:
        """Return proposals, or a failed advice with the reason."""


class Ledger(Protocol):
    """Append-only records of one run."""

    async def read(self) -> Sequence[Record]:
        """Return all records in order; raise `LedgerError` naming the first bad line."""

    async def append(self, records: Sequence[Record]) -> None:
        """Add records durably, all or none; raise `LedgerError` when that fails."""


class Clock(Protocol):
    """The only source of time."""

    def now(self) -> str:
        """Return the present as an ISO 8601 timestamp in UTC."""

    def seconds(self) -> float:
        """Return seconds since the epoch."""
