"""The axis table: what each value of each axis does to the baseline. Called by briefing and summary."""

import math
from typing import Literal

from pydantic import Field

from tunewright.domain.value import Value, camel_case
from tunewright.planner.candidates import Candidate, Evaluation
from tunewright.planner.decisions import Judge
from tunewright.planner.settings import PlannerSettings
from tunewright.planner.state import Proposal, RunState
from tunewright.planner.sweep import Step, sweep_plan
from tunewright.search.space import Space

EffectKind = Literal["reference", "projected", "filtered", "illegal", "pruned", "failed", "running", "untried"]


class AxisEffect(Value):
    """One value of one axis, the others held at the baseline's."""

    value: str
    kind: EffectKind
    effect_percent: float | None = Field(None, description="Over the baseline's projection.")
    plus_minus_percent: float | None = Field(None, description="One standard deviation.")
    trial: str = Field("", description="Whose profile it rests on.")
    repaired: tuple[str, ...] = Field((), description="Fields that had to follow, in camelCase.")
    message: str = ""

    def __str__(self) -> str:
        if self.kind == "reference":
            return f"{self.value} ref"
        if self.effect_percent is None:
            return f"{self.value} {self.kind}"
        return f"{self.value} {self.effect_percent:+.1f} ±{self.plus_minus_percent:.1f} {self.kind}"


class AxisRow(Value):
    """One axis: the baseline's value first."""

    axis: str = Field(description="Field in camelCase.")
    values: tuple[AxisEffect, ...]

    @property
    def effects(self) -> str:
        """The row as one line of text."""
        return ", ".join(str(value) for value in self.values)


def axis_table(settings: PlannerSettings, space: Space, state: RunState, evaluation: Evaluation) -> tuple[AxisRow, ...]:
    """Return a row for every swept axis, in the order of the sweep."""
    decided = {
        (proposal.origin.axis, getattr(proposal.config, proposal.origin.axis)): proposal
        for proposal in state.proposals_of(0)
        if proposal.origin.proposed_by == "sweep" and proposal.config is not None
    }
    rows: dict[str, list[AxisEffect]] = {}
    for step in sweep_plan(space, settings):
        if step.axis not in rows:
            rows[step.axis] = [AxisEffect(value=_text(getattr(settings.baseline, step.axis)), kind="reference")]
        rows[step.axis].append(_effect(step, decided.get((step.axis, step.value)), state, evaluation))
    return tuple(AxisRow(axis=camel_case(axis), values=tuple(values)) for axis, values in rows.items())


def _effect(step: Step, proposal: Proposal | None, state: RunState, evaluation: Evaluation) -> AxisEffect:
    value, repaired = _text(step.value), tuple(camel_case(field) for field in step.repaired)
    candidate = evaluation.by_config.get(step.config)
    if candidate is not None and candidate.projection is not None:
        effect, spread = _compared(candidate, evaluation.baseline)
        return AxisEffect(
            value=value,
            kind="projected",
            effect_percent=effect,
            plus_minus_percent=spread,
            trial=candidate.trial,
            repaired=repaired,
        )
    message = proposal.message if isinstance(proposal, Judge) else ""
    return AxisEffect(value=value, kind=_kind(proposal, state), repaired=repaired, message=message)


def _kind(proposal: Proposal | None, state: RunState) -> EffectKind:
    if proposal is None:
        return "untried"
    if not isinstance(proposal, Judge):
        return "running" if state.trials[proposal.trial].running else "failed"
    match proposal.verdict:
        case "filtered" | "illegal" | "pruned":
            return proposal.verdict
        case _:
            return "untried"


def _compared(candidate: Candidate, baseline: Candidate | None) -> tuple[float | None, float | None]:
    """Return effect and spread in percent; nothing without a projection of the baseline."""
    if baseline is None or baseline.projection is None or candidate.projection is None or not baseline.projected:
        return None, None
    ratio = (candidate.projected or 0.0) / baseline.projected
    spread = ratio * math.hypot(candidate.projection.uncertainty, baseline.projection.uncertainty)
    return 100 * (ratio - 1), 100 * spread


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "+".join(value) or "none" if isinstance(value, tuple) else str(value)
