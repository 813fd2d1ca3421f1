"""What a trial is asked to do. Written by the planner's side, read by the trial program."""

from typing import Annotated

from pydantic import Field

from tunewright.domain.hardware import MOST_GPUS_PER_NODE, MOST_NODES
from tunewright.domain.model_architecture import MOST_LAYERS
from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import TrainingConfig
from tunewright.domain.value import MOST_TYPED, Value
from tunewright.trial_protocol.identity import (
    PROTOCOL_MINOR,
    PROTOCOL_VERSION,
    ProtocolMinor,
    ProtocolVersion,
    TrialIdentity,
)
from tunewright.trial_protocol.report import MAX_SECONDS

MOST_STEPS = 10**6

LayerCount = Annotated[int, Field(ge=1, le=MOST_LAYERS)]


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
    nodes: int = Field(1, ge=1, le=MOST_NODES, description="Nodes of this trial: 1 for a profile.")
    processes_per_node: int = Field(1, ge=1, le=MOST_GPUS_PER_NODE)
    depths: tuple[LayerCount, LayerCount] = Field(
        (1, 2), description="Layer counts of a profile: slope and fixed part separate."
    )
    warmup_steps: int = Field(1, ge=0, le=MOST_STEPS)
    steps: int = Field(3, ge=1, le=MOST_STEPS, description="Timed repetitions (profile) or optimizer steps (measure).")
    cutoff_step_seconds: float | None = Field(
        None,
        gt=0,
        description="Measure: a job that is clearly slower stops early (`early_stop`); absent: it runs all its steps.",
    )
    seed: int = Field(0, ge=0, le=MOST_TYPED)
    learning_rate: float = Field(1e-3, gt=0, le=1e38, description="Of AdamW; what a measurement's loss curve shows.")
    deadline_seconds: float = Field(
        600.0, gt=0, le=MAX_SECONDS, description="The watchdog reports Timeout after this long."
    )
