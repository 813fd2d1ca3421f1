"""How the LLM is doing: whether it answers, its share and why, what it used. Called by `summary`."""

from pydantic import Field

from tunewright.domain.value import Value
from tunewright.planner.candidates import Evaluation
from tunewright.planner.settings import PlannerSettings
from tunewright.planner.share import llm_share
from tunewright.planner.state import RunState


class AdvisorFigures(Value):
    """How the LLM is doing. `reason` is empty while it answers or was not asked."""

    asked: int
    answered: int
    available: bool
    reason: str = ""
    message: str = ""
    share_percent: int = Field(description="Of the explore rounds, as of now.")
    share_reason: str


def advisor_figures(settings: PlannerSettings, state: RunState, evaluation: Evaluation) -> AdvisorFigures | None:
    """Return the figures; None where no LLM takes part."""
    if settings.llm is None or settings.explore.strategy != "LLM":
        return None
    answers = [asked.advice for _, asked in sorted(state.asked.items()) if asked.advice is not None]
    last = answers[-1] if answers else None
    failed = last is not None and last.outcome != "answered"
    share = llm_share(settings, state, evaluation)
    return AdvisorFigures(
        asked=len(state.asked),
        answered=sum(advice.outcome == "answered" for advice in answers),
        available=not failed,
        reason=last.condition_reason or "Unreachable" if last is not None and failed else "",
        message=last.message if last is not None and failed else "",
        share_percent=share.percent,
        share_reason=share.reason,
    )
