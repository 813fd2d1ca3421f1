"""Snapshot to decisions: the one entrance of the planner. Pure and deterministic.

`decide` is called after each record; when it decides something, the decisions are written down, carried out, and it
is called again, until it returns nothing: then a trial or an answer is awaited, or the run is over.
"""

from collections.abc import Callable

from tunewright.domain.value import canonical_json
from tunewright.planner import budget
from tunewright.planner.decisions import Decision, EnterPhase, Finish, FinishReason, StopTrial
from tunewright.planner.explore import BUDGET_IS_USED, explore
from tunewright.planner.seed import baseline_trial, start_baseline, sweep, sweep_summary
from tunewright.planner.snapshot import Snapshot
from tunewright.planner.stopping import FAILING, first_reason, has_failed_for_good, may_retry, told
from tunewright.planner.turn import Turn
from tunewright.planner.validate import next_measurement, validate

MOST_ROUND_BYTES = 88 * 1024
"""Decisions of one round as the ledger writes them, which keeps them in shards of 128 KiB."""


def decide(snapshot: Snapshot) -> tuple[Decision, ...]:
    """Return what to do next, in order; nothing while something is awaited or when the run is over."""
    turn = Turn(snapshot)
    if snapshot.state.finish is not None:
        return ()
    for rule in _RULES:
        rule(turn)
        if turn.decisions or turn.is_ending:
            break
    return _first_that_fit(turn.decisions)


def _first_that_fit(decisions: list[Decision]) -> tuple[Decision, ...]:
    """Keep a round within a shard of the ledger. What is left over is decided by the next call."""
    kept, size = 0, 0
    for decision in decisions:
        size += len(canonical_json(decision.to_json()))
        if kept and size > MOST_ROUND_BYTES:
            break
        kept += 1
    return tuple(decisions[:kept])


def _stop_when_asked(turn: Turn) -> None:
    if turn.snapshot.settings.stop:
        _end(turn, "Stopped", "stopped as asked")


def _stop_when_failing(turn: Turn) -> None:
    if reason := first_reason(FAILING, turn):
        _end(turn, "Failed", reason)


def _stop_when_out_of_time(turn: Turn) -> None:
    if budget.is_out_of_time(turn.snapshot):
        limit = turn.snapshot.settings.budget.max_duration_seconds
        _end(turn, "BudgetExhausted", f"the duration of {limit:.0f} s is used up")


def _retry(turn: Turn) -> None:
    """Try trials again that failed by a fault of the place; a measurement waits until it is alone."""
    state = turn.snapshot.state
    for trial in state.failed:
        if not may_retry(turn, trial) or turn.free_slots <= 0:
            continue
        start, attempt = trial.start, len(trial.attempts) + 1
        alone = not state.running and not turn.started
        if trial.kind == "measure" and not alone:
            continue
        if start.reserved_gpu_seconds <= turn.gpu_seconds_left:
            turn.decisions.append(start.model_copy(update={"attempt": attempt}))


def _advance(turn: Turn) -> None:
    match turn.snapshot.state.phase:
        case None:
            _begin(turn)
        case "seed":
            _seed(turn)
        case "explore":
            if reason := explore(turn):
                _enter(turn, "validate", reason)
        case "validate":
            if validate(turn):
                _finish(turn)


def _begin(turn: Turn) -> None:
    space, baseline = turn.snapshot.space, turn.snapshot.settings.baseline
    row = space.row_of(baseline)
    if row is None:
        _end(turn, "Failed", "the baseline is not legal: correct it")
    elif not space.fits[row]:
        _end(turn, "Failed", f"the baseline {space.memory_verdict(row).message(0)}")
    else:
        turn.decisions.append(EnterPhase(phase="seed", reason=f"{space.counts.fitting} configurations fit"))
        start_baseline(turn)
        if not turn.started:
            _end(turn, "BudgetExhausted", "the budget allows no trial: raise maxGPUHours or maxTrials")


def _seed(turn: Turn) -> None:
    baseline = baseline_trial(turn)
    if baseline is not None and has_failed_for_good(turn, baseline):
        _enter(turn, "explore", f"the baseline has no profile, so there is nothing to sweep from: {told(baseline)}")
    elif baseline is not None and baseline.report is not None and sweep(turn) and not turn.decisions:
        _enter(turn, "explore", sweep_summary(turn))


def _enter(turn: Turn, phase: str, reason: str) -> None:
    turn.decisions.append(EnterPhase.model_validate({"phase": phase, "reason": reason}))


def _finish(turn: Turn) -> None:
    evaluation, state = turn.evaluation, turn.snapshot.state
    failed = state.failed
    last = f"; the last failure is {failed[-1].name}, {told(failed[-1])}" if failed else ""
    if evaluation.winner is None:
        _end(turn, "Failed", f"no trial succeeded{last}")
    elif next_measurement(turn) is not None:
        _end(turn, "BudgetExhausted", "the GPU hours left do not cover the next validation")
    elif state.measurements and evaluation.best_measured is None:
        _end(turn, "Failed", f"every validation failed{last}")
    else:
        reason: FinishReason = "BudgetExhausted" if state.phase_reason == BUDGET_IS_USED else "Converged"
        _end(turn, reason, f"explored until {state.phase_reason}; {len(state.measurements)} validations")


def _end(turn: Turn, reason: FinishReason, message: str) -> None:
    """Finish, once nothing runs any more: so a finished run has nothing to add. What runs is stopped first."""
    turn.is_ending = True
    running = turn.snapshot.state.running
    if not running:
        turn.decisions.append(Finish(reason=reason, message=message))
    for trial in running:
        attempt = trial.attempts[-1]
        if not attempt.is_stopping:
            turn.decisions.append(StopTrial(trial=trial.name, attempt=attempt.number, reason=message))


_RULES: tuple[Callable[[Turn], None], ...] = (
    _stop_when_asked,
    _stop_when_failing,
    _stop_when_out_of_time,
    _retry,
    _advance,
)
