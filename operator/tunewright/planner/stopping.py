"""When exploring, or the whole run, ends: one function per rule, chains as lists. Called by `decide` and `explore`.

A rule returns why it stops, or an empty text.
"""

from collections.abc import Callable
from itertools import islice, takewhile

from tunewright.planner import budget
from tunewright.planner.rounds import LEAST_IMPROVEMENT, is_of_llm, is_under_way, outcome
from tunewright.planner.trial import Trial, failure_of
from tunewright.planner.turn import Turn
from tunewright.trial_protocol.identity import MOST_ATTEMPTS
from tunewright.trial_protocol.report import CONFIGURATION_FAILURES, ENDED_BY_DRIVER, RETRIED_FAILURES, FailureClass

IDENTICAL_FAILURES = 3
"""Trials in a row that end with the same fault of the place: the next one would too."""

Rule = Callable[[Turn], str]


def too_many_failed_trials(turn: Turn) -> str:
    """More trials failed by faults of the place than the budget allows."""
    limit = turn.snapshot.settings.budget.max_failed_trials
    failed = [trial for trial in turn.snapshot.state.failed if has_failed_for_good(turn, trial)]
    faults = [trial for trial in failed if trial.failure and is_fault_of_place(trial.failure)]
    if len(faults) <= limit:
        return ""
    last = faults[-1]
    return f"{len(faults)} trials failed, {limit} are allowed; the last one, {last.name}: {told(last)}"


def same_fault_again(turn: Turn) -> str:
    """The latest trials all ended with the same fault of the place."""
    ended = _latest_ended(turn)
    failures = {trial.failure for trial in ended}
    fault = ended[-1].failure if ended else None
    if len(ended) < IDENTICAL_FAILURES or len(failures) > 1 or fault is None or not is_fault_of_place(fault):
        return ""
    return f"{IDENTICAL_FAILURES} trials in a row ended with {told(ended[-1])}"


def same_fault_at_every_attempt(turn: Turn) -> str:
    """A trial used up its attempts, and another one meets the same fault: more attempts would too.

    Preemption says nothing about the next attempt. First attempts that fail together, as when a switch dies, are
    tried again.
    """
    state = turn.snapshot.state
    backwards = (end for end in reversed(state.finished_attempts) if failure_of(end) not in ENDED_BY_DRIVER)
    last = next(backwards, None)
    fault = failure_of(last) if last else None
    if last is None or fault is None or fault == "Preempted" or not is_fault_of_place(fault):
        return ""
    latest = [last, *takewhile(lambda end: failure_of(end) == fault, backwards)]
    trials = [state.trials[name] for name in {end.trial for end in latest}]
    is_hopeless = len(trials) > 1 and any(has_failed_for_good(turn, trial) for trial in trials)
    if len(latest) <= IDENTICAL_FAILURES or not is_hopeless:
        return ""
    return f"{len(latest)} attempts in a row ended with {told(state.trials[latest[0].trial])}"


FAILING: tuple[Rule, ...] = (
    same_fault_again,
    same_fault_at_every_attempt,
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


def is_fault_of_place(failure: FailureClass) -> bool:
    """Tell whether a failure says nothing about the configuration. What whoever drives the run ended is no fault."""
    return failure not in CONFIGURATION_FAILURES and failure not in ENDED_BY_DRIVER


def has_failed_for_good(turn: Turn, trial: Trial) -> bool:
    """Tell whether a trial failed and will not be attempted again."""
    return trial.failure is not None and not may_retry(turn, trial)


def may_retry(turn: Turn, trial: Trial) -> bool:
    """Tell whether a failed trial gets another attempt. An interrupted attempt counts as none, but for what it used.

    One that the budget does not cover is still awaited while something runs, which may use less than it reserved.
    """
    if trial.failure not in RETRIED_FAILURES and trial.failure != "Interrupted":
        return False
    if trial.own_attempts >= turn.snapshot.settings.max_attempts or len(trial.attempts) >= MOST_ATTEMPTS:
        return False
    return bool(turn.snapshot.state.running) or trial.start.reserved_gpu_seconds <= turn.gpu_seconds_left


def rounds_without_improvement(turn: Turn) -> int:
    """Count the latest rounds, all of their trials ended, that did not raise the best projection.

    A round that the LLM lost to the surrogate says nothing about what the surrogate could still find: it is left out.
    """
    state, found = turn.snapshot.state, turn.evaluation.best_by_round
    best, idle = found.get(0, 0.0), 0
    for number in range(1, state.explore_round + 1):
        if is_under_way(state, number):
            break
        value = found.get(number, 0.0)
        if value > best * (1 + LEAST_IMPROVEMENT):
            idle = 0
        elif not (is_of_llm(state, number) and outcome(state, found, number) == "lost"):
            idle += 1
        best = max(best, value)
    return idle


def _latest_ended(turn: Turn) -> list[Trial]:
    """Return the latest trials that ended for good, in the order in which they did."""
    trials = turn.snapshot.state.trials
    for_good = (
        trial
        for end in reversed(turn.snapshot.state.finished_attempts)
        if (trial := trials[end.trial]).finished is end
        and not may_retry(turn, trial)
        and trial.failure not in ENDED_BY_DRIVER
    )
    return [*islice(for_good, IDENTICAL_FAILURES)][::-1]


def told(trial: Trial) -> str:
    """Return how a trial ended: the failure and what was said about it."""
    finished = trial.finished
    message = finished.message if finished else ""
    if finished and finished.report and not message:
        message = finished.report.message
    return f"{trial.failure}: {message}" if message else str(trial.failure)
