"""Sums up a ledger so that runs can be set side by side. Called by `tunewright compare`; pure.

What was best after so many trials is read from the projections and measurements that the ledger records, not derived
again: another version's ledger is compared by its own figures.
"""

from collections import Counter
from collections.abc import Sequence

from pydantic import Field

from tunewright.domain.axes import describe
from tunewright.domain.value import Value
from tunewright.planner.decisions import FinishReason, StartTrial
from tunewright.planner.evaluation import evaluate
from tunewright.planner.hypotheses import HypothesisStatus, tracked_hypotheses
from tunewright.planner.records import Record, Round, TrialFinished
from tunewright.planner.replay import header_of, space_of
from tunewright.planner.state import RunState, fold
from tunewright.trial_protocol.report import ENDED_BY_DRIVER


class BestAfter(Value):
    """The best projection once so many trials had ended; a run that ended earlier keeps its last one."""

    trials: int
    projected: float | None = Field(None, description="Tokens/s/GPU; absent before the first projection.")


class HypothesisCount(Value):
    """Hypotheses of the LLM by what became of them."""

    status: HypothesisStatus
    count: int


class RunFigures(Value):
    """One run. Times and costs are the run's own; in a rerun, what its recorded trials had cost counts again."""

    run: str
    problem_digest: str
    model: str = Field("", description="The LLM; empty where none was used.")
    rerun_of: str = ""
    finish_reason: FinishReason | None = None
    trials: int = Field(description="Trials that ended with an answer.")
    recorded_trials: int = Field(description="Rerun: those that the repeated ledger answered.")
    best_after: tuple[BestAfter, ...]
    best_measured: float | None = Field(None, description="Tokens/s/GPU of the best configuration, mean of repeats.")
    best_configuration: str = ""
    gpu_hours: float
    recorded_gpu_hours: float = Field(description="Of them, used by the repeated run and not again.")
    llm_calls: int
    llm_tokens: int
    llm_cost_usd: float
    llm_seconds: float = Field(description="Waited for answers.")
    llm_trials: int = Field(description="Trials that the LLM proposed.")
    hypotheses: tuple[HypothesisCount, ...] = ()


def run_figures(records: Sequence[Record], after: Sequence[int]) -> RunFigures:
    """Return the figures of one run; `after` are the numbers of trials at which its best is wanted."""
    header, state = header_of(records), fold(records)
    settings, spent = state.settings or header.settings, state.spent
    answers = [asked.advice for asked in state.asked.values() if asked.advice is not None]
    recorded = [record for record in state.finished_attempts if record.recorded_from]
    measured, configuration = _best_measured(state)
    used_llm = settings.llm is not None and settings.explore.strategy == "LLM"
    return RunFigures(
        run=header.run,
        problem_digest=header.problem.digest(),
        model=settings.llm.model if settings.llm and used_llm else "",
        rerun_of=header.rerun_of,
        finish_reason=state.finish.reason if state.finish else None,
        trials=len({record.trial for record in state.finished_attempts if _answered(record)}),
        recorded_trials=len(recorded),
        best_after=_best_after(records, after),
        best_measured=measured,
        best_configuration=configuration,
        gpu_hours=spent.gpu_seconds / 3600,
        recorded_gpu_hours=sum(record.gpu_seconds for record in recorded) / 3600,
        llm_calls=spent.llm_calls,
        llm_tokens=spent.llm_tokens,
        llm_cost_usd=spent.llm_cost_usd,
        llm_seconds=sum(advice.latency_seconds for advice in answers),
        llm_trials=sum(isinstance(item, StartTrial) and item.origin.proposed_by == "llm" for item in state.proposals),
        hypotheses=_hypotheses(records, state),
    )


def _answered(record: TrialFinished) -> bool:
    return record.failure not in ENDED_BY_DRIVER


def _best_after(records: Sequence[Record], after: Sequence[int]) -> tuple[BestAfter, ...]:
    """Go through the ledger once: what rounds recorded before the next trial ended was known before it."""
    best: list[float] = []
    """Best projection after 0, 1, 2, … trials."""
    now, ended = 0.0, set[str]()
    for record in records:
        if isinstance(record, TrialFinished) and _answered(record) and record.trial not in ended:
            ended.add(record.trial)
            best.append(now)
        elif isinstance(record, Round):
            now = max([now, *(figure.projected for figure in record.projections)])
    best.append(now)
    return tuple(BestAfter(trials=n, projected=best[min(n, len(best) - 1)] or None) for n in after)


def _best_measured(state: RunState) -> tuple[float | None, str]:
    figures: dict[str, list[float]] = {}
    for trial in state.measurements:
        if trial.report is not None and trial.report.measured is not None:
            figures.setdefault(describe(trial.config), []).append(trial.report.measured.tokens_per_second_per_gpu)
    means = {name: sum(values) / len(values) for name, values in figures.items()}
    if not means:
        return None, ""
    best = max(means, key=lambda name: means[name])
    return means[best], best


def _hypotheses(records: Sequence[Record], state: RunState) -> tuple[HypothesisCount, ...]:
    """Judge them as the run's own report does, which takes its space; most ledgers have none."""
    if not any(asked.advice and asked.advice.hypotheses for asked in state.asked.values()):
        return ()
    header = header_of(records)
    evaluation = evaluate(header.problem, state.settings or header.settings, space_of(header), state)
    counts = Counter(item.status for item in tracked_hypotheses(state, evaluation))
    return tuple(HypothesisCount(status=status, count=count) for status, count in sorted(counts.items()))
