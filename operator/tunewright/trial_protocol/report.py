"""What a trial found. Written by the trial program, read by the planner's side; at most 3,000 bytes as JSON."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from tunewright.domain.value import Value
from tunewright.trial_protocol.identity import (
    PROTOCOL_MINOR,
    PROTOCOL_VERSION,
    ProtocolMinor,
    ProtocolVersion,
    TrialIdentity,
)

MAX_REPORT_BYTES = 3000
MOST_COLLECTIVES = 10
"""What candidates have inside a node of eight; a report has room for no more."""
MAX_SECONDS = 1e7
MAX_SPREAD = 1e3
MAX_BYTES = 2**50
MAX_RANKS = 2**22
MAX_TOKENS = 2**48
MAX_LOSS = 1e39
MAX_READING = 10**6
"""Bounds of what a trial can honestly say: beyond them a report is wrong, and arithmetic on it would overflow.

Ranks and tokens are as many as a problem may have; no loss in fp32 is larger than 3.4e38.
"""

StepSeconds = Annotated[float, Field(gt=0, le=MAX_SECONDS)]
Seconds = Annotated[float, Field(ge=0, le=MAX_SECONDS)]
ByteCount = Annotated[int, Field(ge=0, le=MAX_BYTES)]
Loss = Annotated[float, Field(ge=-MAX_LOSS, le=MAX_LOSS)]

FailureClass = Literal[
    "DeviceOutOfMemory",
    "Timeout",
    "NaNLoss",
    "CrashInTraining",
    "RcclFailure",
    "DeviceMismatch",
    "Unsupported",
    "NodeLost",
    "Preempted",
    "ImagePull",
    "Unschedulable",
    "QuotaExceeded",
    "AdmissionDenied",
    "ResultMissing",
    "ResultInvalid",
    "HostOOMKilled",
    "Cancelled",
    "Interrupted",
]

Runner = Literal["builtin", "primus"]
"""Who computed a trial: this project's torch program, or Primus that it launched."""

CONFIGURATION_FAILURES: frozenset[FailureClass] = frozenset(
    {"DeviceOutOfMemory", "Timeout", "NaNLoss", "CrashInTraining", "Unsupported"}
)
"""Data about the configuration: never retried, they feed the search."""

RETRIED_FAILURES: frozenset[FailureClass] = frozenset({"RcclFailure", "DeviceMismatch", "NodeLost", "Preempted"})
"""Faults of the place: tried again elsewhere, a limited number of times."""

ENDED_BY_DRIVER: frozenset[FailureClass] = frozenset({"Cancelled", "Interrupted"})
"""Nobody's fault: the run was told to end the trial, or whatever drove the run was itself ended."""


class Timing(Value):
    """A median with its spread, in seconds."""

    seconds: float = Field(ge=0, le=MAX_SECONDS, description="Median.")
    spread: float = Field(0.0, ge=0, le=MAX_SPREAD, description="Half the interquartile range over the median.")


class LayerTiming(Value):
    """One layer of one micro batch at the candidate's per-rank shapes, without collectives.

    With recomputation, the recomputed forward is part of `backward_input`.
    """

    forward: Timing
    backward_input: Timing
    backward_weight: Timing


class CollectiveTiming(Value):
    """One collective inside the node. `bytes` is the buffer of one rank, `ranks` the group."""

    operation: Literal["all-reduce", "all-gather", "reduce-scatter", "all-to-all", "send-receive"]
    ranks: int = Field(ge=2, le=MAX_RANKS)
    bytes: int = Field(ge=1, le=MAX_BYTES)
    timing: Timing


class Profile(Value):
    """Everything that a projection uses. Times per micro batch on one rank."""

    dense_layer: LayerTiming | None = None
    moe_layer: LayerTiming | None = None
    embedding: LayerTiming | None = Field(None, description="Absent where the candidate's model has none on a rank.")
    head: LayerTiming | None = Field(None, description="Final norm, output layer and loss.")
    optimizer_seconds_per_parameter: float = Field(0.0, ge=0, le=1, description="Of one sharded parameter.")
    collectives: tuple[CollectiveTiming, ...] = Field((), max_length=MOST_COLLECTIVES)
    contention: float = Field(
        1.0, ge=1, le=MAX_SPREAD, description="Times are this much longer because ranks shared cores; 1: they did not."
    )
    launch_overhead_seconds: float = Field(0.0, ge=0, le=MAX_SECONDS)
    saved_bytes_per_layer: dict[str, ByteCount] = Field(default_factory=dict, description="By layer kind: dense, moe.")
    peak_memory_bytes: ByteCount = 0
    modelled_groups: tuple[str, ...] = Field((), description="Groups that did not fit in the node and were not timed.")
    included_groups: tuple[str, ...] = Field(
        (),
        description="Groups whose collectives are in the layers' times, as where a launcher was timed whole.",
    )
    spent_seconds: dict[str, Seconds] = Field(default_factory=dict, description="Where the profile's own time went.")
    phase_peak_bytes: dict[str, ByteCount] = Field(
        default_factory=dict, description="Peak memory by phase of the profile."
    )


class Measured(Value):
    """The whole job ran. Figures are over the timed steps; memory is the highest rank's."""

    step_seconds: tuple[StepSeconds, ...] = Field(
        min_length=1, max_length=64, description="Slowest rank, per timed step."
    )
    tokens_per_step: int = Field(ge=1, le=MAX_TOKENS)
    world_size: int = Field(ge=1, le=MAX_RANKS)
    nodes: int = Field(ge=1, le=MAX_RANKS)
    peak_memory_bytes: ByteCount = 0
    first_loss: Loss
    last_loss: Loss
    losses: tuple[Loss, ...] = Field((), max_length=64, description="Of the whole batch, per step from the first on.")
    stage_peak_bytes: tuple[ByteCount, ...] = Field(
        (), max_length=64, description="Highest rank of each pipeline stage."
    )
    stopped_early: int | None = Field(
        None,
        ge=1,
        le=64,
        description="Timed steps until it was clearly beyond the request's cutoff; absent: all that were asked for.",
    )

    @property
    def tokens_per_second_per_gpu(self) -> float:
        """Throughput at the median step."""
        ordered = sorted(self.step_seconds)
        middle = len(ordered) // 2
        median = ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
        return self.tokens_per_step / (median * self.world_size)


class DeviceFacts(Value):
    """Where the trial ran."""

    name: str = Field(max_length=80)
    architecture: str = Field("", max_length=40)
    count: int = Field(ge=0, le=MAX_RANKS)
    memory_bytes: ByteCount = 0
    host: str = Field("", max_length=80)
    torch_version: str = Field("", max_length=40)
    runtime: str = Field("", max_length=80, description="Versions of driver, device runtime and collectives.")
    clock_megahertz: int = Field(0, ge=0, le=MAX_READING, description="Highest engine clock; 0: not known.")
    power_cap_watts: int = Field(0, ge=0, le=MAX_READING, description="0: not known.")
    co_tenants: int = Field(
        0, ge=0, le=MAX_READING, description="Processes of others on the device when the trial began."
    )


class TrialReport(Value):
    """The only thing about a trial that is trusted. Exactly one of profile, measured and failure is set."""

    protocol_version: ProtocolVersion = PROTOCOL_VERSION
    protocol_minor: ProtocolMinor = PROTOCOL_MINOR
    identity: TrialIdentity
    profile: Profile | None = None
    measured: Measured | None = None
    failure: FailureClass | None = None
    message: str = Field("", max_length=500)
    device: DeviceFacts | None = None
    runner: Runner | None = Field(None, description="Who computed it: what one runner lacks another may have.")
    simulated: bool = Field(False, description="A stand-in answered; the label follows every figure made from it.")
    wall_seconds: float = Field(0.0, ge=0, le=MAX_SECONDS)

    @model_validator(mode="after")
    def _has_one_outcome(self) -> "TrialReport":
        outcomes = [part for part in (self.profile, self.measured, self.failure) if part is not None]
        if len(outcomes) != 1:
            raise ValueError("exactly one of profile, measured and failure must be set")
        if self.failure == "Interrupted":
            raise ValueError("an interrupted trial leaves no report: only who drives the run can say so")
        if self.profile is not None and self.identity.kind != "profile":
            raise ValueError("a measure trial must not return a profile")
        if self.measured is not None and self.identity.kind != "measure":
            raise ValueError("a profile trial must not return a measurement")
        return self
