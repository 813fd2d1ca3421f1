"""What came of each round of the exploration, whoever it belonged to. Called by stopping, share and hypotheses.

A round belongs to the LLM when it was asked and answered; otherwise to the surrogate, which also takes over a round
whose answer failed.
"""

from typing import Literal

from tunewright.planner.decisions import StartTrial
from tunewright.planner.state import RunState

LEAST_IMPROVEMENT = 0.001
"""A round improves the result when it raises the best projection by at least this share; less is a tie."""

Outcome = Literal["won", "lost", "open"]


def is_of_llm(state: RunState, number: int) -> bool:
    """Tell whether a round belongs to the LLM: asked, and not known to have failed."""
    asked = state.asked.get(number)
    return asked is not None and not asked.failed


def is_under_way(state: RunState, number: int) -> bool:
    """Tell whether an answer or a trial of a round is still awaited."""
    asked = state.asked.get(number)
    if asked is not None and asked.advice is None:
        return True
    starts = [proposal for proposal in state.proposals_of(number) if isinstance(proposal, StartTrial)]
    return any(state.trials[start.trial].running for start in starts)


def outcome(state: RunState, best: dict[int, float], number: int) -> Outcome:
    """Compare a round of the LLM with the surrogate's rounds beside it.

    Lost: nothing that it proposed has a figure, or the best is below that of the surrogate's last round before it and
    of the first one after it. Where the surrogate had no round yet, only an improvement counts, and as a win.
    """
    if is_under_way(state, number) or (number not in best and _is_undecided(state, number)):
        return "open"
    mine = best.get(number, 0.0)
    if not mine:
        return "lost"
    rivals = _beside(state, best, number)
    if rivals:
        return "won" if mine >= min(rivals) * (1 - LEAST_IMPROVEMENT) else "lost"
    before = max((value for earlier, value in best.items() if earlier < number), default=0.0)
    return "won" if mine > before * (1 + LEAST_IMPROVEMENT) else "open"


def _is_undecided(state: RunState, number: int) -> bool:
    asked = state.asked.get(number)
    advised = len(asked.advice.proposals) if asked is not None and asked.advice is not None else 0
    decided = [item for item in state.proposals_of(number) if item.origin.proposed_by == "llm"]
    return len(decided) < advised


def _beside(state: RunState, best: dict[int, float], number: int) -> list[float]:
    """Return the best of the surrogate's nearest rounds with figures, on both sides of a round."""
    sides = range(number - 1, 0, -1), range(number + 1, max(best) + 1)
    nearest = (next((other for other in side if other in best and not is_of_llm(state, other)), 0) for side in sides)
    return [best[other] for other in nearest if other]
