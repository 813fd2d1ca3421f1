"""What a run is expected to cost before anything runs: nothing where no configuration fits.

Called at acceptance, by `plan` and by the summary.
"""

from pydantic import Field

from tunewright.domain.problem import TuningProblem
from tunewright.domain.value import Value
from tunewright.planner import budget
from tunewright.planner.briefing import briefing
from tunewright.planner.seed import PRUNING_MARGIN, trials_allowed
from tunewright.planner.settings import PlannerSettings
from tunewright.planner.snapshot import Snapshot
from tunewright.planner.state import RunState
from tunewright.planner.sweep import sweep_plan
from tunewright.search.space import Space

WINNING_ROUNDS = 2
"""Rounds of the exploration that are expected to improve the result, before patience starts to count."""


class Forecast(Value):
    """Expectations, from estimates alone; limits of the budget are respected."""

    trials: int = Field(description="Profiles: what `maxTrials` limits.")
    validations: int = Field(description="Whole-job runs of the best and of the baseline.")
    gpu_hours: float
    duration_seconds: float
    llm_calls: int
    llm_cost_usd: float | None = Field(None, description="Absent when the prices are not known.")


def forecast(problem: TuningProblem, settings: PlannerSettings, space: Space) -> Forecast:
    """Estimate trials, accelerator hours, duration and LLM cost of a whole run. The latest one is kept."""
    kept: tuple[object, Forecast] | None = space.memo.get("forecast")
    if kept is None or kept[0] != (problem, settings):
        kept = space.memo["forecast"] = (problem, settings), _forecast(problem, settings, space)
    return kept[1]


def _forecast(problem: TuningProblem, settings: PlannerSettings, space: Space) -> Forecast:
    swept = min(_sweep_trials(space, settings), trials_allowed(settings))
    rounds = settings.explore.patience + WINNING_ROUNDS
    groups = len({int(group) for group in space.key_index[space.fits]})
    profiles = min(settings.budget.max_trials, groups, swept + rounds * settings.explore.proposals_per_round)
    fitting = space.counts.fitting
    most = fitting + settings.validation.repeats - 1 if fitting else 0
    validations = min(budget.planned_measurements(settings), most)
    row = space.row_of(settings.baseline)
    step = float(space.step_seconds[row]) if row is not None else 0.0
    gpu_seconds = profiles * budget.profile_gpu_seconds(settings)
    gpu_seconds += validations * budget.measure_gpu_seconds(problem, settings, step)
    seconds = profiles * (budget.START_SECONDS + budget.PROFILE_SECONDS) / settings.parallel_trials
    seconds += validations * budget.measure_seconds(settings, step)
    calls, cost = _llm(problem, settings, space, rounds)
    return Forecast(
        trials=profiles,
        validations=validations,
        gpu_hours=_at_most(gpu_seconds / 3600, settings.budget.max_gpu_hours),
        duration_seconds=_at_most(seconds, settings.budget.max_duration_seconds),
        llm_calls=calls,
        llm_cost_usd=None if cost is None else _at_most(cost, settings.budget.max_llm_cost_usd),
    )


def _sweep_trials(space: Space, settings: PlannerSettings) -> int:
    """Count the profiles of the sweep: one for each key among the values that fit and may win by their estimate."""
    rows = [space.row_of(step.config) for step in sweep_plan(space, settings)] + [space.row_of(settings.baseline)]
    fitting = [row for row in rows if row is not None and space.fits[row]]
    best = max((float(space.tokens_per_second_per_gpu[row]) for row in fitting), default=0.0)
    worth = [row for row in fitting if space.tokens_per_second_per_gpu[row] >= (1 - PRUNING_MARGIN) * best]
    return len({int(space.key_index[row]) for row in worth})


def _llm(problem: TuningProblem, settings: PlannerSettings, space: Space, rounds: int) -> tuple[int, float | None]:
    llm = settings.llm
    if llm is None or settings.explore.strategy != "LLM" or not space.counts.fitting:
        return 0, 0.0
    calls = min(settings.budget.max_llm_calls, -(-rounds * settings.explore.llm_share_percent // 100))
    if llm.input_usd_per_million_tokens is None and llm.output_usd_per_million_tokens is None:
        return calls, None
    context = briefing(Snapshot(problem, settings, space, RunState()))
    return calls, calls * budget.llm_reservation(llm, context, 1).cost_usd


def _at_most(value: float, limit: float | None) -> float:
    return value if limit is None else min(value, limit)
