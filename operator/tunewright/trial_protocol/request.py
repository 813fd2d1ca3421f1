"""What a trial is asked to do. Written by the planner's side, read by the trial program."""

from pydantic import Field

from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import TrainingConfig
from tunewright.domain.value import Value
from tunewright.trial_protocol.identity import (
    PROTOCOL_MINOR,
    PROTOCOL_VERSION,
    ProtocolMinor,
    ProtocolVersion,
    TrialIdentity,
)


class ExpectedDevice(Value):
    """What the trial must find on its node, or it reports DeviceMismatch. Preset `cpu` expects no accelerator."""

    preset: str
    vendor: str
    architecture: str = ""
    count: int = Field(ge=1, description="Devices that the trial may use.")
    hbm_capacity_bytes: int = Field(0, ge=0, description="0: not checked.")


class TrialRequest(Value):
    """One attempt of one trial. `problem` is the job that is modelled; `processes` is what really runs."""

    protocol_version: ProtocolVersion = PROTOCOL_VERSION
    protocol_minor: ProtocolMinor = PROTOCOL_MINOR
    identity: TrialIdentity
    problem: TuningProblem
    config: TrainingConfig
    device: ExpectedDevice
    nodes: int = Field(1, ge=1, description="Nodes of this trial: 1 for a profile.")
    processes_per_node: int = Field(1, ge=1)
    depths: tuple[int, int] = Field((1, 2), description="Layer counts of a profile: slope and fixed part separate.")
    warmup_steps: int = Field(1, ge=0)
    steps: int = Field(3, ge=1, description="Timed repetitions (profile) or optimizer steps (measure).")
    cutoff_step_seconds: float | None = Field(
        None,
        gt=0,
        description="Measure: a job that is clearly slower stops early (`early_stop`); absent: it runs all its steps.",
    )
    seed: int = 0
    learning_rate: float = Field(1e-3, gt=0, le=1e38, description="Of AdamW; what a measurement's loss curve shows.")
    deadline_seconds: float = Field(600.0, gt=0, description="The watchdog reports Timeout after this long.")
