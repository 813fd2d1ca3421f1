"""The lines of a ledger: everything that ever entered a run, in order. Folded into a state by `planner.state`.

`at` and the fields named in `TIMINGS` are clock readings: two runs are "the same but for timestamps" when everything
else is equal. Sources: the header and settings from the spec, rounds from `decide`, the rest from the world.
"""

from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError

from tunewright.domain.problem import TuningProblem
from tunewright.domain.value import Value, canonical_json, problems_of
from tunewright.errors import InvalidInput
from tunewright.planner.decisions import Decision
from tunewright.planner.settings import PlannerSettings
from tunewright.trial_protocol.report import FailureClass, TrialReport
from tunewright.trial_protocol.request import ExpectedDevice

LEDGER_VERSION = 1
TIMINGS = frozenset({"at", "elapsedSeconds", "gpuSeconds", "queuedSeconds", "wallSeconds", "seconds", "stepSeconds"})


class Header(Value):
    """First line: the effective run. `problem` and `settings` are resolved, so a replay needs no catalog."""

    type: Literal["header"] = "header"
    ledger_version: Literal[1] = 1
    run: str = Field(description="NAMESPACE/NAME in a cluster, the file's name on a laptop.")
    run_uid: str
    problem: TuningProblem
    settings: PlannerSettings
    device: ExpectedDevice = Field(description="What trials must find; preset `cpu` on stand-in nodes and laptops.")
    simulated: bool = False
    operator_version: str
    catalog_version: str
    at: str


class SettingsChanged(Value):
    """A mutable field of the spec changed while the run was alive."""

    type: Literal["settings"] = "settings"
    settings: PlannerSettings
    at: str


class Round(Value):
    """One call of `decide` that decided something, with its only inputs beside the ledger itself."""

    type: Literal["round"] = "round"
    elapsed_seconds: float = Field(ge=0, description="Active time of the run, as the budget counts it.")
    decisions: tuple[Decision, ...] = Field(min_length=1)
    at: str


class ProposedConfig(Value):
    """One proposal of an advisor: changes to the incumbent or whole configuration, as plain JSON, unjudged."""

    changes: dict[str, Any] = Field(description="Field or short name to value; the rest comes from the incumbent.")
    reason: str = Field("", max_length=1000)


class AdviceUsage(Value):
    """What one call cost."""

    input_tokens: int = Field(0, ge=0)
    output_tokens: int = Field(0, ge=0)
    cost_usd: float = Field(0.0, ge=0)
    calls: int = Field(1, ge=0, description="Requests that reached the endpoint, repair rounds included.")


class Advice(Value):
    """The answer to one `AskAdvisor`, or why there is none. Exactly one for each round that was asked."""

    type: Literal["advice"] = "advice"
    round: int = Field(ge=1)
    outcome: Literal["answered", "failed", "lost"]
    proposals: tuple[ProposedConfig, ...] = Field((), max_length=32)
    condition_reason: str = Field("", description="Failed: the reason of AdvisorAvailable, such as Unreachable.")
    message: str = Field("", max_length=2000)
    model: str = ""
    prompt_digest: str = ""
    usage: AdviceUsage = AdviceUsage()
    at: str


class TrialStarted(Value):
    """One attempt is under way: from here on, one that is not to be seen is lost, and never started again."""

    type: Literal["started"] = "started"
    trial: str
    attempt: int = Field(ge=1)
    at: str


class TrialFinished(Value):
    """One attempt of a trial ended. Written once per attempt, in the order in which trials were started."""

    type: Literal["trial"] = "trial"
    trial: str
    attempt: int = Field(ge=1)
    report: TrialReport | None = Field(None, description="Absent when none arrived.")
    failure: FailureClass | None = None
    message: str = Field("", max_length=1000)
    node: str = ""
    gpu_seconds: float = Field(0.0, ge=0, le=1e13)
    queued_seconds: float = Field(0.0, ge=0, le=1e9)
    at: str


Record = Annotated[
    Header | SettingsChanged | Round | Advice | TrialStarted | TrialFinished, Field(discriminator="type")
]
_ADAPTER: TypeAdapter[Record] = TypeAdapter(Record)


def parse_record(document: object) -> Record:
    """Read one record; raise `InvalidInput` with every wrong field."""
    try:
        return _ADAPTER.validate_python(document)
    except ValidationError as error:
        raise InvalidInput(problems_of(error, "record")) from None


def record_line(record: Record) -> str:
    """Return the one-line canonical JSON of a record."""
    return canonical_json(record.to_json())


def without_timings(document: object) -> object:
    """Return a record's JSON with every clock reading removed, to compare two ledgers."""
    if isinstance(document, dict):
        return {key: without_timings(value) for key, value in document.items() if key not in TIMINGS}
    if isinstance(document, list):
        return [without_timings(value) for value in document]
    return document
