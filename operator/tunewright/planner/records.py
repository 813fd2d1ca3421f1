"""The lines of a ledger: everything that ever entered a run, in order. Folded into a state by `planner.state`.

`at` and the fields named in `TIMINGS` are clock readings: two runs are "the same but for timestamps" when everything
else is equal. Sources: the header and settings from the spec, rounds from `decide`, the rest from the world. How
records become chained lines is in `planner.chain`.
"""

import hashlib
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError

from tunewright.domain.problem import TuningProblem
from tunewright.domain.value import Value, canonical_json, problems_of
from tunewright.errors import InvalidInput
from tunewright.planner.decisions import Decision
from tunewright.planner.settings import PlannerSettings
from tunewright.trial_protocol.report import FailureClass, TrialReport
from tunewright.trial_protocol.request import ExpectedDevice

LEDGER_VERSION = 2
TIMINGS = frozenset(
    {"at", "elapsedSeconds", "gpuSeconds", "latencySeconds", "queuedSeconds", "wallSeconds", "seconds", "stepSeconds"}
    | {"cutoffStepSeconds"}
)
DIGESTS = frozenset({"digest", "previous", "requestDigest", "rerunOf", "warmStartOf"})
"""Digests of text with clock readings or a run's own id in it."""
MOST_KEPT_BYTES = 32 * 1024
"""Of one text that was sent to an LLM or came from it, as UTF-8."""
MOST_ADVICE_BYTES = 88 * 1024
"""Of all such texts of one answer, as the ledger writes them: they share a shard of 128 KiB with the rest."""
MOST_PROPOSED_BYTES = 24 * 1024
"""Of the hypotheses and proposals that were read from them, as the ledger writes them."""


class Header(Value):
    """First line: the effective run. `problem` and `settings` are resolved, so a replay needs no catalog."""

    type: Literal["header"] = "header"
    ledger_version: Literal[2] = 2
    run: str = Field(description="NAMESPACE/NAME in a cluster, the file's name on a laptop.")
    run_uid: str
    problem: TuningProblem
    settings: PlannerSettings
    device: ExpectedDevice = Field(description="What trials must find; preset `cpu` on stand-in nodes and laptops.")
    simulated: bool = False
    operator_version: str
    catalog_version: str = Field(description="Digest of the catalog that the problem was resolved with.")
    spec_digest: str = Field("", description="SHA-256 of the canonical JSON of what was asked; empty in a rerun.")
    rerun_of: str = Field("", description="Rerun: digest of the last line of the ledger that is repeated.")
    image: str = Field("", description="Of the trials' containers; empty where none were used.")
    warm_start_of: str = Field("", description="Warm start: digest of the last line of the ledger that answers.")
    at: str


class SettingsChanged(Value):
    """A mutable field of the spec changed while the run was alive."""

    type: Literal["settings"] = "settings"
    settings: PlannerSettings
    at: str


class ProjectedFigure(Value):
    """What a configuration was projected to when the planner first used it. Six significant digits, tokens/s/GPU."""

    trial: str = Field(description="Whose profile it rests on.")
    config_digest: str
    projected: float = Field(ge=0)
    low: float = Field(ge=0, description="Of the interval, with the bias that was known then.")
    high: float = Field(ge=0)


class Round(Value):
    """One call of `decide` that decided something, with its only inputs beside the ledger itself."""

    type: Literal["round"] = "round"
    elapsed_seconds: float = Field(ge=0, description="Active time of the run, as the budget counts it.")
    decisions: tuple[Decision, ...] = Field(min_length=1)
    projections: tuple[ProjectedFigure, ...] = Field((), description="Those that are new since the round before.")
    at: str


class Hypothesis(Value):
    """What an advisor believes; the configurations of the same answer that name it are its test."""

    axes: tuple[str, ...] = Field((), max_length=32)
    mechanism: str = Field("", max_length=1000)
    expected_gain_percent: float | None = Field(None, ge=-1000, le=1000, description="Over the incumbent.")


class ProposedConfig(Value):
    """One proposal of an advisor: changes to the incumbent or whole configuration, as plain JSON, unjudged."""

    changes: dict[str, Any] = Field(description="Field or short name to value; the rest comes from the incumbent.")
    reason: str = Field("", max_length=1000)
    hypothesis: int = Field(0, ge=0, le=32, description="Which hypothesis of the answer it tests, from 1; 0: none.")


class AdviceUsage(Value):
    """What one call cost."""

    input_tokens: int = Field(0, ge=0)
    output_tokens: int = Field(0, ge=0)
    cost_usd: float = Field(0.0, ge=0)
    calls: int = Field(1, ge=0, description="Requests that reached the endpoint, repair rounds included.")


class Exchange(Value):
    """One request to an LLM and what came back, without secrets; `answer` is empty when nothing did."""

    prompt: str
    answer: str


class Advice(Value):
    """The answer to one `AskAdvisor`, or why there is none. Exactly one for each round that was asked."""

    type: Literal["advice"] = "advice"
    round: int = Field(ge=1)
    outcome: Literal["answered", "failed", "lost"]
    proposals: tuple[ProposedConfig, ...] = Field((), max_length=32)
    hypotheses: tuple[Hypothesis, ...] = Field((), max_length=32)
    condition_reason: str = Field("", description="Failed: the reason of AdvisorAvailable, such as Unreachable.")
    message: str = Field("", max_length=2000)
    provider: str = ""
    model: str = ""
    prompt_digest: str = ""
    exchanges: tuple[Exchange, ...] = Field((), description="Cut as `kept_exchanges` cuts.")
    usage: AdviceUsage = AdviceUsage()
    latency_seconds: float = Field(0.0, ge=0, description="From the question to the answer, retries included.")
    at: str


class TrialStarted(Value):
    """One attempt is under way: from here on, one that is not to be seen is lost, and never started again."""

    type: Literal["started"] = "started"
    trial: str
    attempt: int = Field(ge=1)
    request_digest: str = Field("", description="SHA-256 of the canonical JSON of the attempt's request.")
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
    recorded_from: str = Field("", description="Rerun: the trial of the repeated ledger that answered.")
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
    """Return a record's JSON without clock readings and without what depends on them, to compare two ledgers."""
    if isinstance(document, dict):
        return {key: without_timings(value) for key, value in document.items() if key not in TIMINGS | DIGESTS}
    if isinstance(document, list):
        return [without_timings(value) for value in document]
    return document


def cut_text(text: str, limit: int = MOST_KEPT_BYTES) -> str:
    """Shorten a text to `limit` bytes of UTF-8 and name the length and digest of what was there.

    >>> cut_text("short"), cut_text("longer", 4)[:5]
    ('short', 'long…')
    """
    content = text.encode("utf-8", "replace")
    if len(content) <= limit:
        return content.decode()
    kept = content[:limit].decode(errors="ignore")
    return f"{kept}… (cut: {len(content)} bytes, sha256 {hashlib.sha256(content).hexdigest()})"


def kept_exchanges(exchanges: Sequence[tuple[str, str]]) -> tuple[Exchange, ...]:
    """Return (prompt, answer) pairs as the ledger keeps them: each text cut, and cut shorter when they are many."""
    limit = MOST_KEPT_BYTES
    while True:
        kept = tuple(Exchange(prompt=cut_text(one, limit), answer=cut_text(other, limit)) for one, other in exchanges)
        if limit <= 1 or sum(len(canonical_json(item.to_json())) for item in kept) <= MOST_ADVICE_BYTES:
            return kept
        limit //= 2


def fitting(advice: Advice) -> Advice:
    """Return an advice that a shard can hold: without the last proposals, where they are longer than anybody needs."""
    kept = advice
    while kept.proposals and _proposed_bytes(kept) > MOST_PROPOSED_BYTES:
        kept = kept.model_copy(update={"proposals": kept.proposals[:-1]})
    while kept.hypotheses and _proposed_bytes(kept) > MOST_PROPOSED_BYTES:
        kept = kept.model_copy(update={"hypotheses": kept.hypotheses[:-1]})
    if kept is advice:
        return advice
    dropped = len(advice.proposals) - len(kept.proposals)
    said = f"{dropped} proposals were left out: together they are longer than a ledger line may be"
    return kept.model_copy(update={"message": said})


def _proposed_bytes(advice: Advice) -> int:
    return sum(len(canonical_json(item.to_json())) for item in (*advice.proposals, *advice.hypotheses))
