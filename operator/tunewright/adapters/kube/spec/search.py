"""What the search may do: sweep, explore, LLM, validation, budget. Read by `acceptance`."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from tunewright.adapters.kube.spec.axes import AxisName
from tunewright.adapters.kube.spec.base import (
    ATOMIC,
    Decimal,
    KeyRef,
    ObjectName,
    PositiveDecimal,
    rule,
    unique_by,
    validated,
)
from tunewright.domain.hardware import MOST_NODES
from tunewright.domain.value import Value

OWN_KEY = "apiBase needs apiKeySecretRef: the operator's own key is never sent to another endpoint"


class ReferenceSpec(Value):
    """A published or remembered throughput that the results are compared with."""

    tokens_per_second_per_gpu: PositiveDecimal = Field(description="What was reached.")
    precision: str = Field("", max_length=32, description="Its precision; another one than the run's is flagged.")
    source: str = Field("", max_length=200, description="Where it is from; shown beside it.")


class MemoryModelSpec(Value):
    """How the memory model decides."""

    safety_margin_percent: int = Field(2, ge=0, le=50, description="Share of the device memory kept free.")


class SweepSpec(Value):
    """The first phase."""

    axes: Annotated[tuple[AxisName, ...], Field(max_length=32), unique_by()] = Field(
        (),
        description="Order of the axes; empty: by expected effect.",
        json_schema_extra=ATOMIC
        | validated(rule("self.all(axis, self.exists_one(other, other == axis))", message="an axis is given twice")),
    )


class ExploreSpec(Value):
    """The second phase."""

    strategy: Literal["LLM", "Surrogate"] = Field(
        "LLM", description="LLM: that of spec.llm, else the operator's own; Surrogate: none."
    )
    llm_share_percent: int = Field(50, ge=0, le=100, description="Share of the explore trials that the LLM proposes.")
    proposals_per_round: int = Field(4, ge=1, le=32, description="Most proposals of one round.")
    patience: int = Field(3, ge=1, le=100, description="Rounds without improvement before exploring ends.")


class PriceSpec(Value):
    """What the endpoint charges, where LiteLLM does not know it."""

    input_usd_per_million_tokens: Decimal = Field(description="For prompts.")
    output_usd_per_million_tokens: Decimal = Field(description="For answers.")


class LLMSpec(Value):
    """The LLM that proposes, instead of the operator's own. Anything that LiteLLM can reach with a key of yours."""

    model_config = ConfigDict(
        json_schema_extra=validated(
            rule(
                "!has(self.apiBase) || has(self.apiKeySecretRef)",
                message=OWN_KEY,
            )
        )
    )
    model: str = Field(min_length=1, max_length=256, description="LiteLLM name, such as openai/gpt-5.")
    api_base: str | None = Field(
        None, max_length=512, pattern=r"^https?://", description="Address of the endpoint; default: the provider's."
    )
    api_key_secret_ref: KeyRef | None = Field(
        None, description="Secret of this namespace with the key; the operator needs to be granted it by name."
    )
    timeout_seconds: int = Field(60, ge=1, le=3600, description="For a whole round, repeats included.")
    max_output_tokens: int = Field(4096, ge=16, le=131_072, description="Longest answer; reserved with each call.")
    price: PriceSpec | None = None

    def connection(self) -> dict[str, Any]:
        """Return what the advisor's connection is made from, without its key."""
        return {
            "model": self.model,
            "api_base": self.api_base,
            "timeout_seconds": self.timeout_seconds,
            "max_output_tokens": self.max_output_tokens,
            "input_usd_per_million_tokens": float(self.price.input_usd_per_million_tokens) if self.price else None,
            "output_usd_per_million_tokens": float(self.price.output_usd_per_million_tokens) if self.price else None,
        }


class ValidationSpec(Value):
    """The third phase: whole-job runs of the best projections and of the baseline."""

    top_k: int = Field(3, ge=0, le=50, description="Best projections that are measured.")
    include_baseline: bool = Field(True, description="Measure the baseline too: without it there is no measured gain.")
    nodes: int | None = Field(None, ge=1, le=MOST_NODES, description="Default: the nodes of the cluster.")
    steps: int = Field(10, ge=1, le=64, description="Timed optimizer steps.")
    repeats: int = Field(2, ge=1, le=20, description="Runs of the fastest in all; of the others one.")
    early_stop: bool = Field(
        True, description="End a measurement after a few steps if they are clearly slower than the fastest's so far."
    )
    launcher: Literal["Job"] = Field("Job", description="What runs it: an indexed Job with one Pod a node.")


class LedgerFrom(Value):
    """A TuningRun of the same namespace, or one that is deleted and whose ledger was kept."""

    name: ObjectName = Field(description="Of the earlier run.")


class WarmStartSpec(Value):
    """Reports that exist already. They answer trials with the same profile key and cost no accelerator time."""

    ledger_from: LedgerFrom = Field(
        description="Whose ledger answers. Model, accelerators of a node, backend and trial image must be the same."
    )


class ResultsSpec(Value):
    """What is left of a run, and for how long. Mutable."""

    keep: bool = Field(
        False, description="Result and ledger outlive the run's deletion; `tunewright gc` lists and removes them."
    )
    keep_failed_trials: int = Field(
        3, ge=0, le=100, description="Jobs and Pods of the latest failed trials that stay whatever the TTL says."
    )
    trial_ttl_seconds_after_finished: int = Field(
        3600, ge=0, le=31_536_000, description="Lifetime of an ended trial's Job, once its result is in the ledger."
    )


class BudgetSpec(Value):
    """Upper limits, reserved before they are spent. May change at any time; raised, they let a finished run go on."""

    max_trials: int = Field(30, ge=1, le=5000, description="Profile trials; validations are counted by topK.")
    max_failed_trials: int = Field(5, ge=0, le=5000, description="Faults of the place, not of the configuration.")
    max_gpu_hours: PositiveDecimal | None = Field(None, description="Accelerator hours of all trials.")
    max_duration_seconds: int | None = Field(None, ge=1, le=31_536_000, description="Without queueing.")
    max_llm_calls: int = Field(20, ge=0, le=100_000, description="Requests to the LLM, repairs included.")
    max_llm_tokens: int = Field(500_000, ge=0, le=2_000_000_000, description="Of prompts and answers together.")
    max_llm_cost_usd: Decimal | None = Field(None, description="Needs llm.price.")
