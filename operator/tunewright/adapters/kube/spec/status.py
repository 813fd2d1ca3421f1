"""The TuningRun's status: a cache of what spec, ledger and Jobs say. Written by `adapters.kube.status`, read by people.

Numbers are whole or decimal strings. Growing lists are atomic and short, so that the object stays small with
thousands of trials.
"""

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from tunewright.adapters.kube.spec.axes import BaselineSpec
from tunewright.adapters.kube.spec.base import ATOMIC, map_by
from tunewright.domain.value import Value

MAX_RECENT_TRIALS = 10
State = Literal["Pending", "Sweeping", "Exploring", "Validating", "Suspended", "Succeeded", "Stopped", "Failed"]
Text = Annotated[str, StringConstraints(max_length=1024)]
Number = Annotated[str, StringConstraints(max_length=32)]
Timestamp = Annotated[str, StringConstraints(max_length=64)]
Flags = Annotated[
    tuple[Annotated[str, StringConstraints(max_length=64)], ...], Field(max_length=16, json_schema_extra=ATOMIC)
]
_TIME: dict[str, Any] = {"format": "date-time"}


class Condition(Value):
    """One aspect of the run: what is true, why, since when."""

    type: str = Field(max_length=64)
    status: Literal["True", "False", "Unknown"]
    reason: str = Field(max_length=128)
    message: str = Field(max_length=4096)
    observed_generation: int
    last_transition_time: Timestamp = Field(json_schema_extra=_TIME)


class ForecastStatus(Value):
    """What the whole run is expected to cost."""

    trials: int
    validations: int
    gpu_hours: Number
    duration_seconds: int
    llm_calls: int
    llm_cost_usd: Number | None = None


class SpentStatus(Value):
    """What the run has cost so far."""

    gpu_hours: Number
    duration_seconds: int
    queued_seconds: int
    llm_calls: int
    llm_tokens: int
    llm_cost_usd: Number
    gpu_hours_saved: Number = Field(description="By filtering, pruning and reuse.")


class SpaceStatus(Value):
    """Points of the search space."""

    legal: int = Field(description="Configurations that every launch rule allows.")
    fitting: int = Field(description="Of these, those that fit in memory.")
    tight: int = Field(description="Of the fitting ones, those near the limit.")
    filtered: int = Field(description="Those that do not fit.")


class FailureCount(Value):
    """Failed trials of one class."""

    failure_class: str = Field(alias="class", max_length=64)
    count: int


class LastFailure(Value):
    """The most recent failed trial."""

    trial: str = Field(max_length=16)
    failure_class: str = Field(alias="class", max_length=64)
    node: str = Field("", max_length=253)
    message: Text = ""


class TrialsStatus(Value):
    """Counters, recomputed from the ledger each time."""

    summary: str = Field(max_length=32, description="Profile trials over budget.maxTrials.")
    proposed: int = Field(description="Proposals of sweep, surrogate and LLM.")
    filtered: int = Field(description="Of these, rejected by the memory model.")
    pruned: int = Field(description="Estimated too far behind to win.")
    reused: int = Field(description="Projected from a profile that existed.")
    rejected: int = Field(description="Illegal, outside the search space, or not to be read.")
    running: int
    projected: int = Field(description="Configurations with a projection.")
    measured: int = Field(description="Configurations with a measurement.")
    failed: int = Field(description="Trials that failed for good.")
    failed_by_class: tuple[FailureCount, ...] = Field((), max_length=32, json_schema_extra=map_by("class"))
    last_failure: LastFailure | None = None


class Improvement(Value):
    """Gain in percent; absent where there is nothing to compare with."""

    over_reference: Number | None = None
    over_baseline: Number | None = None


class ProjectedBest(Value):
    """Best configuration by projection: extrapolated from a single-node profile."""

    trial: str = Field(max_length=16)
    tokens_per_second_per_gpu: int
    interval_low: int
    interval_high: int
    improvement_percent: Improvement = Improvement()
    memory_percent: Number | None = None
    flags: Flags = ()
    configuration: BaselineSpec  # type: ignore[valid-type]  # made at run time


class MeasuredBest(Value):
    """Best configuration by measurement: the whole job ran."""

    trial: str = Field(max_length=16)
    tokens_per_second_per_gpu: int
    interval_low: int
    interval_high: int
    improvement_percent: Improvement = Improvement()
    memory_percent: Number | None = None
    nodes: int
    repeats: int
    flags: Flags = ()
    configuration: BaselineSpec  # type: ignore[valid-type]  # made at run time


class BestStatus(Value):
    """Projected and measured, never mixed."""

    projected: ProjectedBest | None = None
    measured: MeasuredBest | None = None


class PercentInterval(Value):
    """A range in percent."""

    low: Number
    high: Number


class BiasStatus(Value):
    """projected / measured − 1 over the validated configurations."""

    percent: Number
    samples: int
    interval_percent: PercentInterval | None = None


class AxisEffects(Value):
    """One line of the axis table."""

    axis: str = Field(max_length=64)
    effects: Text


class RecentTrial(Value):
    """One of the latest trial attempts."""

    trial: str = Field(max_length=16)
    attempt: int
    kind: Literal["Profile", "Validation"]
    phase: str = Field(max_length=64)
    job: str = Field(max_length=63)
    node: str = Field("", max_length=253)


class ResultsStatus(Value):
    """Where the results are."""

    config_map: str = Field("", max_length=253, description="With launch files and report, once the run is finished.")
    ledger_selector: str = Field(max_length=128, description="Labels of the ledger's ConfigMaps.")
    ledger_shards: int
    ledger_digest: str = Field(max_length=80, description="Of the ledger's last line.")
    simulated: bool = Field(description="A stand-in answered: the figures say nothing about hardware.")
    operator_version: str = Field(max_length=32)
    catalog_version: str = Field(max_length=32)


class TuningRunStatus(Value):
    """What it is doing, what it found, whether to believe it."""

    answer: Text = Field("", description="What it found, or what it waits for, in one sentence.")
    observed_generation: int = Field(description="Generation of the spec that this status is about.")
    state: State = Field(description="For people; programs look at conditions.")
    start_time: Timestamp | None = Field(None, json_schema_extra=_TIME)
    conditions: tuple[Condition, ...] = Field((), max_length=16, json_schema_extra=map_by("type"))
    forecast: ForecastStatus | None = None
    spent: SpentStatus | None = None
    space: SpaceStatus | None = None
    trials: TrialsStatus | None = None
    best: BestStatus | None = None
    bias: BiasStatus | None = None
    axes: tuple[AxisEffects, ...] = Field((), max_length=32, json_schema_extra=ATOMIC)
    recent_trials: tuple[RecentTrial, ...] = Field((), max_length=MAX_RECENT_TRIALS, json_schema_extra=ATOMIC)
    results: ResultsStatus | None = None
