"""What the planner may decide. Every decision carries its reason; all of them are written down before they happen."""

from typing import Annotated, Literal

from pydantic import Field

from tunewright.domain.training_config import TrainingConfig
from tunewright.domain.value import Value

Phase = Literal["seed", "explore", "validate"]
ProposedBy = Literal["baseline", "sweep", "surrogate", "llm", "validation"]
Verdict = Literal["filtered", "illegal", "pruned", "duplicate", "reused", "unreadable", "outside"]
"""`outside`: legal, but not in the search space that the person allowed."""


class Acquisition(Value):
    """What the surrogate expected of a proposal when it chose it. Six significant digits."""

    mean_tokens_per_second_per_gpu: float
    sigma: float = Field(description="Relative, one standard deviation.")
    expected_improvement: float = Field(description="In log units over the best known: 0.01 is one percent.")


class Origin(Value):
    """Who proposed a configuration and why."""

    phase: Phase
    proposed_by: ProposedBy
    axis: str = Field("", description="Sweep: the field that varies.")
    round: int = Field(0, ge=0, description="Explore: the round.")
    reason: str = Field("", max_length=1000)
    acquisition: Acquisition | None = Field(None, description="Surrogate: why this one.")


class EnterPhase(Value):
    """The run moves on."""

    type: Literal["enter-phase"] = "enter-phase"
    phase: Phase
    reason: str


class StartTrial(Value):
    """Run one attempt of a trial. `trial` is new unless `attempt` is above 1."""

    type: Literal["start-trial"] = "start-trial"
    trial: str
    attempt: int = 1
    kind: Literal["profile", "measure"]
    config: TrainingConfig
    profile_key: str
    origin: Origin
    repeat: int = Field(1, ge=1, description="Measure: which repetition of the same configuration.")
    reserved_gpu_seconds: float = Field(ge=0)
    cutoff_step_seconds: float | None = Field(
        None, gt=0, description="Measure: a job that is clearly slower per step stops early. Six significant digits."
    )


class Judge(Value):
    """A proposal that needs no trial: what became of it, and why."""

    type: Literal["judge"] = "judge"
    config: TrainingConfig | None = Field(None, description="Absent when the proposal could not be read.")
    verdict: Verdict
    message: str = Field(max_length=2000)
    origin: Origin
    reused_trial: str = ""


class AskAdvisor(Value):
    """Spend LLM calls on new proposals. The reservation stays spent if the answer is lost."""

    type: Literal["ask-advisor"] = "ask-advisor"
    round: int = Field(ge=1)
    proposals: int = Field(ge=1)
    max_calls: int = Field(1, ge=1, description="Requests that the round may send, retries and a repair included.")
    reserved_tokens: int = Field(ge=0, description="Prompts and answers over all calls.")
    reserved_cost_usd: float = Field(0.0, ge=0)
    incumbent: TrainingConfig | None = Field(None, description="What the proposals change: the best of that moment.")
    reason: str = Field("", max_length=1000, description="Why the LLM has this round: its share.")


class StopTrial(Value):
    """End a running trial: the run was stopped or its budget is gone."""

    type: Literal["stop-trial"] = "stop-trial"
    trial: str
    attempt: int
    reason: str


FinishReason = Literal["Converged", "BudgetExhausted", "Stopped", "Failed"]


class Finish(Value):
    """The run is over."""

    type: Literal["finish"] = "finish"
    reason: FinishReason
    message: str


Decision = Annotated[EnterPhase | StartTrial | Judge | AskAdvisor | StopTrial | Finish, Field(discriminator="type")]
