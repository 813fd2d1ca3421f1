"""What each condition of an accepted run says. Pure; called by `status`."""

from collections.abc import Mapping
from typing import Literal

from tunewright.adapters.kube.conditions import ConditionStatus, Wanted
from tunewright.adapters.kube.inventory import Capacity
from tunewright.adapters.kube.labels import SUSPEND
from tunewright.planner.decisions import Phase
from tunewright.planner.settings import PlannerSettings
from tunewright.planner.summary import Summary

SuspendedBy = Literal["BySpec", "ByAnnotation"]
REMEDIES: dict[SuspendedBy, str] = {
    "BySpec": "set spec.suspend to false",
    "ByAnnotation": f"remove the annotation {SUSPEND} or set it to false",
}

_ORDER: tuple[Phase, ...] = ("seed", "explore", "validate")


def run_conditions(
    summary: Summary,
    settings: PlannerSettings,
    phase: Phase | None,
    *,
    suspended: SuspendedBy | None,
    reading: Capacity | None,
) -> list[Wanted]:
    """Return what is known. Capacity that was not looked at in this pass is left out, and so stays as it was."""
    capacity = [] if reading is None else [_capacity(reading)]
    return [
        Wanted("Accepted", "True", "Valid"),
        *capacity,
        _advisor(summary, settings),
        _passed("Seeded", phase, "seed", "Sweeping", "AxesSwept"),
        _passed("Explored", phase, "explore", "Exploring", "RoundsDone"),
        _validated(summary, settings, phase),
        _suspended(summary, suspended),
        _finished(summary),
        _succeeded(summary),
    ]


def _capacity(reading: Capacity) -> Wanted:
    statuses: dict[bool | None, ConditionStatus] = {True: "True", False: "False", None: "Unknown"}
    return Wanted("CapacityAvailable", statuses[reading.available], reading.reason, reading.message)


def _advisor(summary: Summary, settings: PlannerSettings) -> Wanted:
    advisor, spent = summary.advisor, summary.spent
    if advisor is None:
        return Wanted("AdvisorAvailable", "False", "NotConfigured", "no LLM is configured, the surrogate works alone")
    limit = settings.budget.max_llm_calls
    if spent.llm_calls >= limit:
        message = f"{spent.llm_calls} of {limit} calls used, the surrogate continues alone"
        return Wanted("AdvisorAvailable", "False", "OverBudget", message)
    if not advisor.available:
        return Wanted("AdvisorAvailable", "False", advisor.reason, advisor.message)
    if advisor.answered:
        return Wanted("AdvisorAvailable", "True", "Answering", f"{advisor.answered} of {advisor.asked} rounds answered")
    return Wanted("AdvisorAvailable", "Unknown", "NotAsked")


def _passed(name: str, phase: Phase | None, own: Phase, during: str, after: str) -> Wanted:
    reached = -1 if phase is None else _ORDER.index(phase)
    if reached < _ORDER.index(own):
        return Wanted(name, "Unknown", "Pending")
    return Wanted(name, "False", during) if reached == _ORDER.index(own) else Wanted(name, "True", after)


def _validated(summary: Summary, settings: PlannerSettings, phase: Phase | None) -> Wanted:
    measured = summary.counters.measured
    wanted = settings.validation.top_k + int(settings.validation.include_baseline)
    message = f"{measured} of {wanted}" if measured <= wanted else f"{measured}, more than the {wanted} asked for"
    if summary.finish_reason is not None:
        return Wanted("Validated", "True" if measured else "False", "Measured" if measured else "NotMeasured", message)
    return Wanted("Validated", "Unknown", "Measuring" if phase == "validate" else "Pending", message)


def _suspended(summary: Summary, suspended: SuspendedBy | None) -> Wanted:
    if suspended is not None and summary.finish_reason is None:
        return Wanted("Suspended", "True", suspended, f"{REMEDIES[suspended]} to go on")
    return Wanted("Suspended", "False", "NotSuspended")


def _finished(summary: Summary) -> Wanted:
    if summary.finish_reason is None:
        return Wanted("Finished", "False", summary.state)
    return Wanted("Finished", "True", summary.finish_reason, summary.finish_message)


def _succeeded(summary: Summary) -> Wanted:
    if summary.finish_reason is None:
        return Wanted("Succeeded", "Unknown", "NotFinished")
    if summary.state == "Succeeded":
        return Wanted("Succeeded", "True", summary.finish_reason, summary.answer)
    return Wanted("Succeeded", "False", summary.finish_reason, summary.finish_message)


def suspended_by(annotations: Mapping[str, str] | None, *, spec_says: bool) -> SuspendedBy | None:
    """Return what suspends a run. The annotation wins: GitOps tools put the spec back, and leave annotations alone."""
    annotation = (annotations or {}).get(SUSPEND)
    if annotation is None:
        return "BySpec" if spec_says else None
    return None if annotation.strip().lower() == "false" else "ByAnnotation"
