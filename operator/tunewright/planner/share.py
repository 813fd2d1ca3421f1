"""Which share of the rounds the LLM gets: what the settings say, a tenth while it keeps losing. Called by explore.

Also read by the briefing and the summary. A pure function of what happened: nothing is counted along the way, so a
round whose trials are still running counts as soon as they have ended.
"""

from dataclasses import dataclass

from tunewright.planner.candidates import Evaluation
from tunewright.planner.rounds import is_of_llm, outcome
from tunewright.planner.settings import PlannerSettings
from tunewright.planner.state import RunState
from tunewright.units import format_speed

LEAST_PERCENT = 10
"""What remains for an LLM that keeps losing: enough to notice that it has become better."""
LOSSES_TO_LEAST = 2
"""Rounds lost in a row that take the share down to the least; as many wins take it up again."""
_WHOLE = 100


@dataclass(frozen=True)
class Share:
    """The share in force, why, and how far the LLM is behind it (above 0) or ahead, in percent of a round."""

    percent: int
    reason: str
    credit: int

    @property
    def is_turn_of_llm(self) -> bool:
        """Tell whether the next round, if it went to the LLM, would leave it within its share."""
        return self.credit + self.percent > 0


def llm_share(settings: PlannerSettings, state: RunState, evaluation: Evaluation) -> Share:
    """Go through the rounds in order: each adds the share in force, each question takes a round."""
    full = settings.explore.llm_share_percent
    best = evaluation.best_by_round
    losses, credit, lost, won = 0, 0, [], []
    for number in range(1, state.explore_round + 1):
        credit += _percent(full, losses)
        if number in state.asked:
            credit -= _WHOLE
        credit = min(credit, _WHOLE)  # what a silent LLM could not use is not saved up
        found = outcome(state, best, number) if is_of_llm(state, number) else "open"
        if found == "lost":
            losses = min(losses + 1, LOSSES_TO_LEAST)
            lost.append(number)
        elif found == "won":
            losses = max(losses - 1, 0)
            won.append(number)
    percent = _percent(full, losses)
    return Share(percent, _reason(full, percent, best, lost, won), credit)


def _percent(full: int, losses: int) -> int:
    """Go down from the full share to the least in equal ratios."""
    if full <= LEAST_PERCENT:
        return full
    ratio: float = (LEAST_PERCENT / full) ** (losses / LOSSES_TO_LEAST)
    return round(full * ratio)


def _reason(full: int, percent: int, best: dict[int, float], lost: list[int], won: list[int]) -> str:
    if not lost and not won:
        return f"{percent} %, as set: no round of the LLM can be compared yet"
    record = f"{len(won)} of {len(won) + len(lost)} rounds of the LLM were at least as good as the surrogate's"
    if percent == full:
        return f"{percent} %, as set: {record}"
    figure = f"best {format_speed(best[lost[-1]])} tokens/s/GPU" if lost[-1] in best else "nothing worth a trial"
    return f"{percent} % instead of {full} %: {record}; round {lost[-1]} lost with {figure}"
