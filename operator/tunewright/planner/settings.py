"""What a run is allowed to do: the effective settings that the planner reads and the ledger's header records.

Made by the acceptance of a TuningRun (`adapters.kube.acceptance`); changed only through `SettingsChanged` records.
"""

from typing import Literal

from pydantic import Field

from tunewright.domain.axes import AxisValue
from tunewright.domain.training_config import TrainingConfig
from tunewright.domain.value import Value


class Budget(Value):
    """Upper limits. Each is reserved before it is spent and never exceeded; None: no limit."""

    max_trials: int = Field(30, ge=1, le=5000, description="Profile trials; validations are counted by topK.")
    max_failed_trials: int = Field(5, ge=0, le=5000, description="Faults of the place, not of the configuration.")
    max_gpu_hours: float | None = Field(None, gt=0)
    max_duration_seconds: float | None = Field(None, gt=0, description="Wall time, without queueing and suspension.")
    max_llm_calls: int = Field(20, ge=0)
    max_llm_tokens: int = Field(500_000, ge=0)
    max_llm_cost_usd: float | None = Field(None, ge=0)

    def exceeds(self, earlier: "Budget") -> bool:
        """Tell whether one of the limits that end a run is higher than it was."""
        names = ("max_trials", "max_failed_trials", "max_gpu_hours", "max_duration_seconds")
        limits = [(getattr(self, name), getattr(earlier, name)) for name in names]
        return any(was is not None and (limit is None or limit > was) for limit, was in limits)


class ExploreSettings(Value):
    """The second phase. The LLM gets `llm_share_percent` of its rounds while it keeps up with the surrogate."""

    strategy: Literal["LLM", "Surrogate"] = "LLM"
    llm_share_percent: int = Field(50, ge=0, le=100)
    proposals_per_round: int = Field(4, ge=1, le=32)
    patience: int = Field(3, ge=1, le=100, description="Rounds without improvement before exploring ends.")


class LLMSettings(Value):
    """What the planner must know of the LLM to reserve its budget. The rest is the advisor adapter's."""

    model: str = Field(min_length=1, max_length=256, description="LiteLLM string, such as openai/gpt-5.")
    max_output_tokens: int = Field(4096, ge=16, le=131_072)
    input_usd_per_million_tokens: float | None = Field(None, ge=0)
    output_usd_per_million_tokens: float | None = Field(None, ge=0)


class ValidationSettings(Value):
    """The third phase: whole-job runs of the best projections and of the baseline."""

    top_k: int = Field(3, ge=0, le=50)
    include_baseline: bool = True
    nodes: int = Field(ge=1, description="Nodes of a validation; fewer than the cluster's are labelled so.")
    steps: int = Field(10, ge=1, le=64)
    warmup_steps: int = Field(2, ge=0, le=100)
    repeats: int = Field(2, ge=1, le=20, description="Runs of the fastest in all; of the others one.")
    early_stop: bool = Field(False, description="Whether jobs that are clearly losing stop early; once, they did not.")


class Reference(Value):
    """A published or remembered throughput that the results are compared with."""

    tokens_per_second_per_gpu: float = Field(gt=0)
    precision: str = ""
    source: str = Field("", max_length=200)


class PlannerSettings(Value):
    """Everything that `decide` reads beside the problem and the history."""

    baseline: TrainingConfig
    search_space: dict[str, tuple[AxisValue, ...]] = Field(
        default_factory=dict, description="Values by TrainingConfig field; axes that are absent have their defaults."
    )
    sweep_axes: tuple[str, ...] = Field((), description="Fields in sweep order; empty: by expected effect.")
    explore: ExploreSettings = ExploreSettings()
    llm: LLMSettings | None = None
    validation: ValidationSettings
    budget: Budget = Budget()
    parallel_trials: int = Field(1, ge=1, le=64)
    profile_gpus: int = Field(1, ge=1, description="Accelerators that one profile trial occupies.")
    max_attempts: int = Field(3, ge=1, le=10, description="Attempts of one trial after faults of the place.")
    reference: Reference | None = None
    random_seed: int = 0
    stop: bool = False

    def with_mutable_of(self, wanted: "PlannerSettings") -> "PlannerSettings":
        """Return these settings with what may change while a run is alive taken from `wanted`."""
        return self.model_copy(update={name: getattr(wanted, name) for name in MUTABLE_FIELDS})


MUTABLE_FIELDS = ("explore", "llm", "budget", "parallel_trials", "stop")
"""What a person on call needs; everything else defines the search and stays as the ledger's header has it."""
