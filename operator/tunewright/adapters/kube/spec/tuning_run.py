"""The TuningRun document as a whole. Read by the operator (an object of the API) and the command line (a file)."""

from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from tunewright.adapters.kube.spec.axes import BaselineSpec, SearchSpaceSpec
from tunewright.adapters.kube.spec.base import rule, validated
from tunewright.adapters.kube.spec.search import (
    BudgetSpec,
    ExploreSpec,
    LLMSpec,
    MemoryModelSpec,
    ReferenceSpec,
    ResultsSpec,
    SweepSpec,
    ValidationSpec,
    WarmStartSpec,
)
from tunewright.adapters.kube.spec.trial import PodSpec, TrialSpec
from tunewright.adapters.kube.spec.workload import ClusterSpec, WorkloadSpec
from tunewright.domain.value import Value
from tunewright.errors import InvalidInput

GROUP = "tunewright.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "TuningRun"
PLURAL = "tuningruns"
MAX_NAME_LENGTH = 40
NAME_PATTERN = r"^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$"

IMMUTABLE_OPTIONAL = (
    *("reference", "baseline", "searchSpace", "memoryModel", "sweep", "validation", "trial", "warmStart"),
)


_IMMUTABLE = "is immutable: create a TuningRun with another name"


def _immutable(field: str) -> dict[str, str]:
    """Compare at spec level: on the optional field itself, removing and adding it again would pass."""
    return rule(
        f"has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || self.{field} == oldSelf.{field})",
        message=_IMMUTABLE,
        field_path=f".{field}",
    )


_SPEC_RULES = validated(
    rule(
        "self.parallelTrials <= self.budget.maxTrials",
        message="parallelTrials exceeds budget.maxTrials",
        message_expression="'%d exceeds budget.maxTrials %d: lower it'"
        ".format([self.parallelTrials, self.budget.maxTrials])",
        field_path=".parallelTrials",
    ),
    rule(
        "!has(self.validation.nodes) || self.validation.nodes <= self.cluster.nodes",
        message="validation.nodes exceeds cluster.nodes",
        message_expression="'nodes %d exceeds cluster.nodes %d: lower it'"
        ".format([self.validation.nodes, self.cluster.nodes])",
        field_path=".validation",
    ),
    rule(
        "!has(self.llm) || self.explore.strategy == 'LLM'",
        message="llm is of no use with explore.strategy Surrogate: remove llm or set the strategy to LLM",
        field_path=".llm",
    ),
    rule("self.randomSeed == oldSelf.randomSeed", message=_IMMUTABLE, field_path=".randomSeed"),
    rule("self.stop || !oldSelf.stop", message="a stopped run never reopens: create another", field_path=".stop"),
    *(_immutable(field) for field in IMMUTABLE_OPTIONAL),
)


class TuningRunSpec(Value):
    """What to tune, on what, with which budget. What defines the search is immutable."""

    model_config = ConfigDict(json_schema_extra=_SPEC_RULES)
    workload: WorkloadSpec
    cluster: ClusterSpec
    reference: ReferenceSpec | None = None
    baseline: BaselineSpec | None = Field(  # type: ignore[valid-type]  # made at run time
        None, description="Default: the least split configuration without recomputation that fits."
    )
    search_space: SearchSpaceSpec | None = None  # type: ignore[valid-type]  # made at run time
    memory_model: MemoryModelSpec = MemoryModelSpec()
    random_seed: int = Field(0, ge=0, le=2**31 - 1, description="Of the surrogate's ties; the same seed decides alike.")
    sweep: SweepSpec = SweepSpec()
    explore: ExploreSpec = ExploreSpec()
    llm: LLMSpec | None = None
    validation: ValidationSpec = ValidationSpec()
    trial: TrialSpec = TrialSpec()
    pod: PodSpec = PodSpec()
    budget: BudgetSpec = BudgetSpec()
    parallel_trials: int = Field(1, ge=1, le=64, description="Trials that may run at once.")
    warm_start: WarmStartSpec | None = None
    results: ResultsSpec = ResultsSpec()
    on_suspend: Literal["DeleteRunning", "LetRunningFinish"] = Field(
        "DeleteRunning", description="What suspension does to running trials; deleted ones run again afterwards."
    )
    suspend: bool = Field(
        False,
        description="Start no trials; true from the start: a dry run. The annotation tunewright.dev/suspend wins.",
    )
    stop: bool = Field(False, description="Finish now, keep the best so far. A stopped run never reopens.")


class Metadata(BaseModel):
    """The part of the object's metadata that is read; the rest is Kubernetes' own."""

    model_config = ConfigDict(extra="ignore", frozen=True)
    name: str = Field(pattern=NAME_PATTERN, max_length=MAX_NAME_LENGTH)
    namespace: str = ""
    uid: str = ""
    generation: int = 0


class TuningRun(Value):
    """One document. `status` is never read: it is a cache."""

    model_config = ConfigDict(alias_generator=None)
    apiVersion: Literal["tunewright.dev/v1alpha1"]  # noqa: N815 - Kubernetes' own spelling
    kind: Literal["TuningRun"]
    metadata: Metadata
    spec: TuningRunSpec


def read_tuning_run(document: object) -> TuningRun:
    """Validate a document; raise `InvalidInput` naming every wrong field by its path in the file."""
    if not isinstance(document, Mapping):
        raise InvalidInput.of("", document, "is not a TuningRun: the file must hold one YAML mapping")
    return TuningRun.parse_strictly({key: value for key, value in document.items() if key != "status"})
