"""Explains one trial from its ledger: who proposed it and why, what was known then, and what became of it.

Called by `tunewright why`. Only what is recorded is told; the bias alone is calculated, as it is defined.
"""

from collections.abc import Sequence

from pydantic import Field

from tunewright.domain.axes import describe
from tunewright.domain.training_config import TrainingConfig
from tunewright.domain.value import Value
from tunewright.errors import InvalidInput
from tunewright.performance.projection import project
from tunewright.planner.decisions import Judge, Origin, StartTrial
from tunewright.planner.evaluation import on_fewer_nodes
from tunewright.planner.records import AdviceUsage, ProjectedFigure, Record, Round, TrialFinished
from tunewright.planner.replay import header_of
from tunewright.planner.state import AskedRound, RunState, fold
from tunewright.planner.trial import Trial
from tunewright.trial_protocol.identity import TrialKind, config_digest
from tunewright.trial_protocol.report import FailureClass


class KnownThen(Value):
    """What the planner knew when it decided."""

    trials_ended: int
    proposals_judged: int = Field(description="Without a trial: filtered, pruned, reused, rejected.")
    projections: int
    best_projected: ProjectedFigure | None = None
    gpu_hours: float
    elapsed_seconds: float


class Question(Value):
    """The LLM's part, where it proposed the trial."""

    model: str
    provider: str
    proposals: int
    hypothesis: str = ""
    usage: AdviceUsage
    latency_seconds: float
    prompt_digest: str


class Ended(Value):
    """How one attempt ended."""

    line: int
    attempt: int
    failure: FailureClass | None = None
    message: str = ""
    node: str = ""
    recorded_from: str = ""
    gpu_seconds: float
    simulated: bool = False
    stopped_early: int | None = Field(None, description="Measure: timed steps until it was clearly losing.")


class Explanation(Value):
    """Everything about one trial. Lines count from 1."""

    trial: str
    kind: TrialKind
    line: int = Field(description="Of the round that started it.")
    at: str
    configuration: str
    config: TrainingConfig
    origin: Origin
    reserved_gpu_seconds: float
    known: KnownThen
    question: Question | None = None
    ended: tuple[Ended, ...] = ()
    projected: ProjectedFigure | None = Field(None, description="Of its configuration, from whichever profile.")
    projected_line: int = 0
    measured: tuple[float, ...] = Field((), description="Tokens/s/GPU of its configuration, each repeat.")
    measured_by: tuple[str, ...] = ()
    bias_percent: float | None = Field(None, description="projected / measured - 1, on the nodes of the measurement.")
    reused_by: tuple[str, ...] = Field((), description="Other configurations that were projected from its profile.")


def explain_trial(records: Sequence[Record], name: str) -> Explanation:
    """Explain one trial; raise `InvalidInput` when the ledger has none of that name."""
    header_of(records)
    state = fold(records)
    trial = state.trials.get(name)
    if trial is None:
        known = f"it has {min(state.trials)} to {max(state.trials)}" if state.trials else "it has none"
        raise InvalidInput.of("TRIAL", name, f"is not a trial of this ledger: {known}")
    position = next(i for i, record in enumerate(records) if isinstance(record, Round) and _starts(record, name))
    decided = records[position]
    projected, projected_line = _projected(records, trial)
    measured = [other for other in state.measurements if other.config == trial.config and other.report is not None]
    return Explanation(
        trial=name,
        kind=trial.kind,
        line=position + 1,
        at=decided.at,
        configuration=describe(trial.config),
        config=trial.config,
        origin=trial.origin,
        reserved_gpu_seconds=trial.start.reserved_gpu_seconds,
        known=_known(records[:position], decided.elapsed_seconds if isinstance(decided, Round) else 0.0),
        question=_question(state, trial),
        ended=_ended(records, name),
        projected=projected,
        projected_line=projected_line,
        measured=tuple(_speed(other) for other in measured),
        measured_by=tuple(other.name for other in measured),
        bias_percent=_bias_percent(state, trial, measured, projected.trial if projected else ""),
        reused_by=tuple(describe(judge.config) for judge in _reusing(state, name) if judge.config is not None),
    )


def _starts(record: Round, name: str) -> bool:
    return any(isinstance(item, StartTrial) and item.trial == name and item.attempt == 1 for item in record.decisions)


def _known(before: Sequence[Record], elapsed_seconds: float) -> KnownThen:
    state = fold(before)
    figures = [figure for record in before if isinstance(record, Round) for figure in record.projections]
    return KnownThen(
        trials_ended=sum(not trial.running for trial in state.trials.values()),
        proposals_judged=len(state.judged),
        projections=len(figures),
        best_projected=max(figures, key=lambda figure: figure.projected, default=None),
        gpu_hours=state.spent.gpu_seconds / 3600,
        elapsed_seconds=elapsed_seconds,
    )


def _question(state: RunState, trial: Trial) -> Question | None:
    asked = state.asked.get(trial.origin.round)
    if trial.origin.proposed_by != "llm" or asked is None or asked.advice is None:
        return None
    advice = asked.advice
    return Question(
        model=advice.model,
        provider=advice.provider,
        proposals=len(advice.proposals),
        hypothesis=_hypothesis(state, trial, asked),
        usage=advice.usage,
        latency_seconds=advice.latency_seconds,
        prompt_digest=advice.prompt_digest,
    )


def _hypothesis(state: RunState, trial: Trial, asked: AskedRound) -> str:
    """Proposals of a round are decided in their order, so the k-th decision belongs to the k-th proposal."""
    if asked.advice is None:
        return ""
    decided = [item for item in state.proposals_of(trial.origin.round) if item.origin.proposed_by == "llm"]
    place = next(i for i, item in enumerate(decided) if item is trial.start)
    number = asked.advice.proposals[place].hypothesis if place < len(asked.advice.proposals) else 0
    if not 0 < number <= len(asked.advice.hypotheses):
        return ""
    hypothesis = asked.advice.hypotheses[number - 1]
    gain = hypothesis.expected_gain_percent
    expected = "" if gain is None else f", expected {gain:+.1f} %"
    return f"{' + '.join(hypothesis.axes)}: {hypothesis.mechanism}{expected}"


def _ended(records: Sequence[Record], name: str) -> tuple[Ended, ...]:
    return tuple(
        Ended(
            line=line,
            attempt=record.attempt,
            failure=record.failure or (record.report.failure if record.report else "ResultMissing"),
            message=record.message or (record.report.message if record.report else ""),
            node=record.node,
            recorded_from=record.recorded_from,
            gpu_seconds=record.gpu_seconds,
            simulated=record.report.simulated if record.report else False,
            stopped_early=record.report.measured.stopped_early if record.report and record.report.measured else None,
        )
        for line, record in enumerate(records, start=1)
        if isinstance(record, TrialFinished) and record.trial == name
    )


def _projected(records: Sequence[Record], trial: Trial) -> tuple[ProjectedFigure | None, int]:
    digest = config_digest(trial.config)
    for line, record in enumerate(records, start=1):
        for figure in record.projections if isinstance(record, Round) else ():
            if figure.config_digest == digest:
                return figure, line
    return None, 0


def _bias_percent(state: RunState, trial: Trial, measured: Sequence[Trial], profile: str) -> float | None:
    source = state.trials.get(profile)
    header, settings = state.header, state.settings
    if not measured or source is None or source.report is None or header is None or settings is None:
        return None
    problem = on_fewer_nodes(header.problem, settings.validation.nodes)
    projected = project(problem, trial.config, source.report).tokens_per_second_per_gpu
    mean = sum(_speed(other) for other in measured) / len(measured)
    return 100 * (projected / mean - 1)


def _reusing(state: RunState, name: str) -> list[Judge]:
    return [judge for judge in state.judged if judge.verdict == "reused" and judge.reused_trial == name]


def _speed(trial: Trial) -> float:
    measured = trial.report.measured if trial.report is not None else None
    return measured.tokens_per_second_per_gpu if measured is not None else 0.0
