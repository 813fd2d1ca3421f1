"""What a run says of itself: one answer, counters, the best figures of each kind, bias, costs.

Called by the custom resource's status, the command line's table and `result.json`. Everything is derived again from
the records each time; nothing is counted along the way.
"""

from collections import Counter
from itertools import islice
from typing import Literal

from pydantic import Field

from tunewright.domain.axes import describe
from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import TrainingConfig
from tunewright.domain.value import Value
from tunewright.planner.advisor_figures import AdvisorFigures, advisor_figures
from tunewright.planner.answer import answer_of
from tunewright.planner.axis_table import AxisRow, axis_table
from tunewright.planner.candidates import Candidate, Evaluation
from tunewright.planner.decisions import FinishReason, Phase, ProposedBy, Verdict
from tunewright.planner.evaluation import evaluate
from tunewright.planner.figures import (
    BestMeasured,
    BestProjected,
    BiasFigure,
    best_measured,
    best_projected,
    bias_figure,
)
from tunewright.planner.forecast import Forecast, forecast
from tunewright.planner.hypotheses import TrackedHypothesis, tracked_hypotheses
from tunewright.planner.settings import PlannerSettings
from tunewright.planner.state import RunState
from tunewright.planner.trial import Trial
from tunewright.search.space import Space, SpaceCounts
from tunewright.trial_protocol.report import FailureClass

RunPhase = Literal["Pending", "Sweeping", "Exploring", "Validating", "Succeeded", "Stopped", "Failed"]
MOST_CANDIDATE_ROWS = 50

_PHASES: dict[Phase, RunPhase] = {"seed": "Sweeping", "explore": "Exploring", "validate": "Validating"}


class FailureCount(Value):
    """Failed trials of one class."""

    failure: FailureClass
    count: int


class LastFailure(Value):
    """The most recent trial that failed."""

    trial: str
    failure: FailureClass
    node: str = ""
    message: str = ""


class Counters(Value):
    """Proposals and trials by what became of them."""

    profiles: int = Field(description="Profile trials started: what `maxTrials` limits.")
    max_profiles: int
    proposed: int
    filtered: int
    pruned: int
    reused: int
    rejected: int = Field(description="Illegal, outside the search space, duplicate or unreadable.")
    running: int
    projected: int = Field(description="Configurations with a projection.")
    measured: int = Field(description="Configurations that ran as a whole job.")
    failed: int
    failed_by_class: tuple[FailureCount, ...] = ()
    last_failure: LastFailure | None = None


class SpentFigures(Value):
    """What the run has used; reservations of what is under way are included."""

    gpu_hours: float
    duration_seconds: float
    queued_seconds: float
    llm_calls: int
    llm_tokens: int
    llm_cost_usd: float
    gpu_hours_saved: float = Field(description="Trials that filtering, pruning and reuse made unnecessary.")


class CandidateRow(Value):
    """One line of the final table. Figures of different kinds stand in different columns."""

    trial: str
    configuration: str
    config: TrainingConfig
    proposed_by: ProposedBy
    memory_percent: float | None = None
    estimated: float
    projected: float | None = None
    measured: float | None = None
    bias_percent: float | None = None
    filtered: bool = Field(False, description="Rejected by the memory model: it has no other figures.")


class Summary(Value):
    """The whole summary."""

    state: RunPhase
    answer: str
    finish_reason: FinishReason | None = None
    finish_message: str = ""
    simulated: bool = Field(False, description="A stand-in answered: the label belongs beside every figure.")
    space: SpaceCounts
    counters: Counters
    best_projected: BestProjected | None = None
    best_measured: BestMeasured | None = None
    bias: BiasFigure | None = None
    axes: tuple[AxisRow, ...] = ()
    forecast: Forecast
    spent: SpentFigures
    advisor: AdvisorFigures | None = None
    hypotheses: tuple[TrackedHypothesis, ...] = ()
    candidates: tuple[CandidateRow, ...] = ()

    @property
    def winner(self) -> TrainingConfig | None:
        """The configuration that the run recommends: the best measured, else the best projected."""
        best = self.best_measured or self.best_projected
        return best.configuration if best else None


def summarise(problem: TuningProblem, settings: PlannerSettings, space: Space, state: RunState) -> Summary:
    """Derive the summary from the records so far."""
    evaluation = evaluate(problem, settings, space, state)
    projected = best_projected(settings, space, evaluation, state)
    measured = best_measured(problem, settings, evaluation, state)
    bias = bias_figure(evaluation)
    simulated = _is_simulated(state)
    finish = state.finish
    return Summary(
        state=_state(state, evaluation),
        answer=answer_of(settings, measured, projected, bias, simulated=simulated),
        finish_reason=finish.reason if finish else None,
        finish_message=finish.message if finish else "",
        simulated=simulated,
        space=space.counts,
        counters=_counters(settings, state, evaluation),
        best_projected=projected,
        best_measured=measured,
        bias=bias,
        axes=axis_table(settings, space, state, evaluation),
        forecast=forecast(problem, settings, space),
        spent=_spent(state),
        advisor=advisor_figures(settings, state, evaluation),
        hypotheses=tracked_hypotheses(state, evaluation),
        candidates=(*_rows(space, evaluation), *_filtered_rows(space, state)),
    )


def _state(state: RunState, evaluation: Evaluation) -> RunPhase:
    if state.finish is None:
        return "Pending" if state.phase is None else _PHASES[state.phase]
    if state.finish.reason == "Stopped":
        return "Stopped"
    return "Failed" if state.finish.reason == "Failed" or evaluation.winner is None else "Succeeded"


def _is_simulated(state: RunState) -> bool:
    return state.tally.is_simulated or (state.header is not None and state.header.simulated)


def _counters(settings: PlannerSettings, state: RunState, evaluation: Evaluation) -> Counters:
    verdicts: Counter[Verdict] = Counter()
    for (verdict, _), count in state.tally.verdicts.items():
        verdicts[verdict] += count
    # An interrupted trial is to run again: nothing is wrong with it or its place.
    failed = [trial for trial in state.failed if trial.failure != "Interrupted"]
    classes = Counter(trial.failure for trial in failed if trial.failure)
    return Counters(
        profiles=len(state.profiles),
        max_profiles=settings.budget.max_trials,
        proposed=sum(proposal.origin.phase != "validate" for proposal in state.proposals),
        filtered=verdicts["filtered"],
        pruned=verdicts["pruned"],
        reused=verdicts["reused"],
        rejected=sum(verdicts[verdict] for verdict in ("illegal", "outside", "duplicate", "unreadable")),
        running=len(state.running),
        projected=len(evaluation.by_projection),
        measured=sum(candidate.measurement is not None for candidate in evaluation.candidates),
        failed=len(failed),
        failed_by_class=tuple(FailureCount(failure=name, count=classes[name]) for name in sorted(classes)),
        last_failure=_last_failure(state, failed),
    )


def _last_failure(state: RunState, failed: list[Trial]) -> LastFailure | None:
    names = {trial.name for trial in failed}
    for finished in reversed(state.finished_attempts) if names else ():
        trial = state.trials[finished.trial]
        if finished.trial in names and trial.failure:
            message = finished.message or (finished.report.message if finished.report else "")
            return LastFailure(trial=finished.trial, failure=trial.failure, node=finished.node, message=message)
    return None


def _spent(state: RunState) -> SpentFigures:
    spent = state.spent
    return SpentFigures(
        gpu_hours=spent.gpu_seconds / 3600,
        duration_seconds=state.elapsed_seconds,
        queued_seconds=spent.queued_seconds,
        llm_calls=spent.llm_calls,
        llm_tokens=spent.llm_tokens,
        llm_cost_usd=spent.llm_cost_usd,
        gpu_hours_saved=_saved_gpu_seconds(state) / 3600,
    )


def _saved_gpu_seconds(state: RunState) -> float:
    """Each proposal that needed no trial saved the mean cost of one.

    What a profile said about its neighbours does not count: nobody would have started a trial for it.
    """
    running = [trial for trial in state.running if trial.kind == "profile"]
    ended = len(state.profiles) - len(running)
    earlier = sum(end.gpu_seconds for trial in running for attempt in trial.attempts if (end := attempt.finished))
    saved = sum(count for what, count in state.tally.verdicts.items() if _saves_a_trial(*what))
    return saved * (state.tally.ended_profile_gpu_seconds - earlier) / ended if ended else 0.0


def _saves_a_trial(verdict: Verdict, proposed_by: ProposedBy) -> bool:
    if verdict == "reused":
        return proposed_by != "surrogate"
    return verdict in ("filtered", "pruned")


def _rows(space: Space, evaluation: Evaluation) -> tuple[CandidateRow, ...]:
    """Return measured candidates first, then projected ones; best first within each."""
    measured = [item for item in evaluation.candidates if item.measurement]
    measured.sort(key=lambda item: -(item.measurement.tokens_per_second_per_gpu if item.measurement else 0.0))
    rest = [item for item in evaluation.by_projection if not item.measurement]
    return tuple(_row(space, candidate) for candidate in [*measured, *rest][:MOST_CANDIDATE_ROWS])


def _filtered_rows(space: Space, state: RunState) -> tuple[CandidateRow, ...]:
    """Return the proposals that the memory model rejected, in the order in which they were made."""
    filtered = (judge for judge in state.judged if judge.verdict == "filtered" and judge.config is not None)
    found = ((judge, space.row_of(judge.config)) for judge in filtered if judge.config is not None)
    rows = islice(((judge, row) for judge, row in found if row is not None), MOST_CANDIDATE_ROWS)
    return tuple(
        CandidateRow(
            trial="-",
            configuration=describe(space.config(row)),
            config=space.config(row),
            proposed_by=judge.origin.proposed_by,
            memory_percent=space.memory_percent(row),
            estimated=float(space.tokens_per_second_per_gpu[row]),
            filtered=True,
        )
        for judge, row in rows
    )


def _row(space: Space, candidate: Candidate) -> CandidateRow:
    measured = candidate.measurement.tokens_per_second_per_gpu if candidate.measurement else None
    projected = candidate.projected
    return CandidateRow(
        trial=candidate.trial,
        configuration=describe(candidate.config),
        config=candidate.config,
        proposed_by=candidate.origin.proposed_by,
        memory_percent=space.memory_percent(candidate.row) if candidate.row is not None else None,
        estimated=candidate.estimated,
        projected=projected,
        measured=measured,
        bias_percent=100 * (projected / measured - 1) if projected and measured else None,
    )
