"""The first phase: the baseline, then one axis at a time with the others held. Called by `decide`.

Every value ends as a trial, a projection from a profile that exists, or a verdict without a trial. Its product is the
axis table (`axis_table.axis_table`).
"""

import math
from functools import partial

from tunewright.domain.value import camel_case
from tunewright.planner.decisions import Origin
from tunewright.planner.settings import PlannerSettings
from tunewright.planner.stopping import out_of_time
from tunewright.planner.sweep import Step, sweep_plan
from tunewright.planner.trial import Trial
from tunewright.planner.turn import Turn
from tunewright.units import format_speed

PRUNING_MARGIN = 0.30
"""A value is pruned when even this relative error of the analytic model could not make it win.

Published analytic models err by 4 to 20 % on the step time of one configuration; of two configurations that differ
in one axis most of that error is common.
"""
TRIALS_SHARE = 1 / 3
"""Part of the profile trials that the sweep may use, so that combinations get the rest.

With a half, the planner lost against the model's best rows at seven profiles (`benchmarks/search`).
"""


def baseline_trial(turn: Turn) -> Trial | None:
    """Return the profile trial of the baseline, once it was started."""
    return next((trial for trial in turn.snapshot.state.profiles if trial.origin.proposed_by == "baseline"), None)


def start_baseline(turn: Turn) -> None:
    """Profile the configuration to beat: the first trial of a run."""
    origin = Origin(phase="seed", proposed_by="baseline", reason="the configuration to beat is known first")
    turn.consider(turn.snapshot.settings.baseline, origin)


def sweep(turn: Turn) -> bool:
    """Decide the next steps of the sweep; return whether it is over."""
    if out_of_time(turn):
        return not turn.snapshot.state.running
    waiting = False
    for step in _open_steps(turn):
        may_start = _trials_used(turn) < trials_allowed(turn.snapshot.settings)
        hopeless = partial(_cannot_win, turn, step.axis)
        outcome = turn.consider(step.config, _origin(step), hopeless, may_start=may_start)
        if outcome == "no-slot":
            return False
        waiting = waiting or outcome == "waits"
    return not waiting and not turn.started and not turn.snapshot.state.running


def sweep_summary(turn: Turn) -> str:
    """Say why the sweep is over."""
    left = len(_open_steps(turn))
    if left:
        return f"the sweep used its share of the budget; {left} axis values are left to the exploration"
    return "every axis value is tried or judged"


def _open_steps(turn: Turn) -> list[Step]:
    decided = {
        (proposal.origin.axis, getattr(proposal.config, proposal.origin.axis))
        for proposal in turn.snapshot.state.proposals
        if proposal.origin.proposed_by == "sweep" and proposal.config is not None
    }
    plan = sweep_plan(turn.snapshot.space, turn.snapshot.settings)
    return [step for step in plan if (step.axis, step.value) not in decided]


def _origin(step: Step) -> Origin:
    reason = f"{camel_case(step.axis)} {_text(step.value)}, the rest as in the baseline"
    if step.repaired:
        reason += f" but for {', '.join(map(camel_case, step.repaired))}, which have to follow"
    return Origin(phase="seed", proposed_by="sweep", axis=step.axis, reason=reason)


def _text(value: object) -> str:
    return "+".join(value) if isinstance(value, tuple) else str(value)


def _trials_used(turn: Turn) -> int:
    swept = sum(trial.origin.phase == "seed" for trial in turn.snapshot.state.profiles)
    return swept + len(turn.started)


def trials_allowed(settings: PlannerSettings) -> int:
    """Return how many profile trials the sweep may use, the baseline included."""
    return max(1, math.ceil(TRIALS_SHARE * settings.budget.max_trials))


def _cannot_win(turn: Turn, axis: str, row: int) -> str:
    """Compare with the best known value of the same axis: a value that loses alone may still win in combination.

    The estimate is scaled by what the baseline's estimate was wrong by; the margin covers the rest.
    """
    baseline, best = turn.evaluation.baseline, _best_of_axis(turn, axis)
    if baseline is None or not baseline.projected:
        return ""
    expected = float(turn.snapshot.space.tokens_per_second_per_gpu[row]) * baseline.projected / baseline.estimated
    if expected >= (1 - PRUNING_MARGIN) * best:
        return ""
    return (
        f"estimated at {format_speed(expected)} tokens/s/GPU, more than {PRUNING_MARGIN:.0%} below "
        f"the best value of this axis ({format_speed(best)}): cannot win"
    )


def _best_of_axis(turn: Turn, axis: str) -> float:
    """Return the best projection among the baseline and the tried values of an axis."""
    known = [
        item for item in turn.evaluation.candidates if item.origin.axis == axis or item == turn.evaluation.baseline
    ]
    return max((item.projected or 0.0 for item in known), default=0.0)
