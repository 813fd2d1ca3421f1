"""When exploring, or the whole run, ends: one function per rule, chains as lists. Called by `decide` and `explore`.

A rule returns why it stops, or an empty text.
"""

from collections.abc import Callable

from tunewright.planner import budget
from tunewright.planner.decisions import StartTrial
from tunewright.planner.evaluation import Candidate
from tunewright.planner.state import RunState, Trial, is_fault_of_place
from tunewright.planner.turn import Turn
from tunewright.trial_protocol.report import RETRIED_FAILURES

LEAST_IMPROVEMENT = 0.001
"""A round improves the result when it raises the best projection by at least this share."""
IDENTICAL_FAILURES = 3
"""Trials in a row that end with the same fault of the place: the next one would too."""

Rule = Callable[[Turn], str]


def too_many_failed_trials(turn: Turn) -> str:
    """More trials failed by faults of the place than the budget allows."""
    limit = turn.snapshot.settings.budget.max_failed_trials
    failed = [trial for trial in turn.snapshot.state.trials.values() if has_failed_for_good(turn, trial)]
    faults = [trial for trial in failed if trial.failure and is_fault_of_place(trial.failure)]
    if len(faults) <= limit:
        return ""
    last = faults[-1]
    return f"{len(faults)} trials failed, {limit} are allowed; the last one, {last.name}: {told(last)}"


def same_fault_again(turn: Turn) -> str:
    """The latest trials all ended with the same fault of the place."""
    ended = _ended_trials(turn)[-IDENTICAL_FAILURES:]
    failures = {trial.failure for trial in ended}
    fault = ended[-1].failure if ended else None
    if len(ended) < IDENTICAL_FAILURES or len(failures) > 1 or fault is None or not is_fault_of_place(fault):
        return ""
    return f"{IDENTICAL_FAILURES} trials in a row ended with {told(ended[-1])}"


FAILING: tuple[Rule, ...] = (
    same_fault_again,
    too_many_failed_trials,
)


def out_of_time(turn: Turn) -> str:
    """The time left is what validation needs."""
    if not budget.must_validate_now(turn.snapshot, turn.expected_step_seconds):
        return ""
    return f"{turn.snapshot.elapsed_seconds:.0f} s are used, and the rest of the duration is kept for validation"


def out_of_patience(turn: Turn) -> str:
    """The latest rounds brought no better projection."""
    patience = turn.snapshot.settings.explore.patience
    idle = rounds_without_improvement(turn)
    return f"{idle} rounds without improvement" if idle >= patience else ""


def out_of_rounds(turn: Turn) -> str:
    """There were more rounds than trials and patience account for: projections alone could go on for long."""
    settings = turn.snapshot.settings
    limit = settings.budget.max_trials + 2 * settings.explore.patience
    return f"{limit} rounds" if turn.snapshot.state.explore_round >= limit else ""


EXPLORED: tuple[Rule, ...] = (
    out_of_time,
    out_of_patience,
    out_of_rounds,
)


def first_reason(rules: tuple[Rule, ...], turn: Turn) -> str:
    """Return the reason of the first rule that stops, or nothing."""
    return next((reason for rule in rules if (reason := rule(turn))), "")


def has_failed_for_good(turn: Turn, trial: Trial) -> bool:
    """Tell whether a trial failed and will not be attempted again."""
    return trial.failure is not None and not may_retry(turn, trial)


def may_retry(turn: Turn, trial: Trial) -> bool:
    """Tell whether a failed trial gets another attempt.

    One that the budget does not cover is still awaited while something runs, which may use less than it reserved.
    """
    if trial.failure not in RETRIED_FAILURES or len(trial.attempts) >= turn.snapshot.settings.max_attempts:
        return False
    return bool(turn.snapshot.state.running) or trial.start.reserved_gpu_seconds <= turn.gpu_seconds_left


def rounds_without_improvement(turn: Turn) -> int:
    """Count the latest rounds, all of their trials ended, that did not raise the best projection."""
    state = turn.snapshot.state
    best = max((_value(item) for item in turn.evaluation.candidates if item.origin.round == 0), default=0.0)
    idle = 0
    for number in range(1, state.explore_round + 1):
        if _under_way(state, number):
            break
        found = max((_value(item) for item in turn.evaluation.candidates if item.origin.round == number), default=0.0)
        idle = 0 if found > best * (1 + LEAST_IMPROVEMENT) else idle + 1
        best = max(best, found)
    return idle


def _under_way(state: RunState, number: int) -> bool:
    asked = state.asked.get(number)
    if asked is not None and asked.advice is None:
        return True
    starts = [proposal for proposal in state.proposals_of(number) if isinstance(proposal, StartTrial)]
    return any(state.trials[start.trial].running for start in starts)


def _value(candidate: Candidate) -> float:
    return candidate.projected or 0.0


def _ended_trials(turn: Turn) -> list[Trial]:
    """Return trials in the order in which they ended for good."""
    ended: dict[str, Trial] = {}
    for finished in turn.snapshot.state.finished_attempts:
        trial = turn.snapshot.state.trials[finished.trial]
        if trial.finished is finished and not may_retry(turn, trial) and trial.failure != "Cancelled":
            ended[trial.name] = trial
    return list(ended.values())


def told(trial: Trial) -> str:
    """Return how a trial ended: the failure and what was said about it."""
    finished = trial.finished
    message = finished.message if finished else ""
    if finished and finished.report and not message:
        message = finished.report.message
    return f"{trial.failure}: {message}" if message else str(trial.failure)
