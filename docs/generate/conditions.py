"""docs/reference/conditions.md: states, conditions with every reason, and Events. A test holds it against the code."""

from collections.abc import Mapping
from typing import get_args

from docs.generate.markdown import code, page, table
from tunewright.adapters.kube.conditions import TYPES
from tunewright.adapters.kube.spec.status import State

_INTRODUCTION = (
    "`kubectl describe tnr NAME` prints them. All conditions are there from the first write; a reason of a condition"
    " that is not known yet is `Pending`. There is no condition `Ready`: wait for `Finished`, then look at `Succeeded`."
)
STATES: Mapping[str, str] = {
    "Pending": "not accepted, held, or waiting for nodes before the first trial",
    "Sweeping": "first phase: one axis at a time",
    "Exploring": "second phase: combinations, by LLM and surrogate",
    "Validating": "third phase: the best and the baseline are measured",
    "Suspended": "suspended by the spec or by the annotation",
    "Succeeded": "finished, with a best configuration",
    "Stopped": "finished because of `spec.stop`; the best so far is kept",
    "Failed": "finished without a usable result, or after too many failures",
}
ABOUT: Mapping[str, str] = {
    "Accepted": "Is the request valid and possible?",
    "CapacityAvailable": "Are there nodes for a trial?",
    "AdvisorAvailable": "Does the LLM take part? If not, the surrogate works alone and the run goes on.",
    "Seeded": "Is the first phase done?",
    "Explored": "Is the second phase done?",
    "Validated": "Were configurations measured?",
    "Suspended": "Is it suspended, and by what?",
    "Finished": "True in both outcomes, for `kubectl wait`.",
    "Succeeded": "Unknown until it is finished.",
}
REASONS: Mapping[str, Mapping[str, str]] = {
    "Accepted": {
        "Valid": "It is.",
        "Illegal": "The message lists every violation. Correct the spec; what is immutable needs a new run.",
        "UnknownPreset": "No such model, accelerator or network in the catalog. The message has the nearest names. A"
        " run that has begun goes on from its ledger once the operator has the preset again.",
        "ReferenceNotFound": "A ConfigMap or ledger that the spec names is not there. Create it; the run looks again.",
        "NotPermitted": "The chart's `allow` lists shut something out: the message says what.",
        "EmptySpace": "`searchSpace` allows no legal configuration. Widen it.",
    },
    "CapacityAvailable": {
        "NodesFound": "Enough nodes with enough free accelerators.",
        "Prewarming": "They are there, and pull the trial image before the first trial (`trial.prewarm`).",
        "NotEnoughNodes": "The message says what is missing: labels, devices, or nodes that others use.",
        "QuotaExceeded": "A ResourceQuota of the namespace is full. Raise it or wait.",
        "AdmissionDenied": "An admission rule refuses the Pods. The message names it.",
        "Queued": "Kueue has not admitted the Job yet. That is no time of the run.",
        "NotChecked": "The operator may not list nodes and Pods. Trials start all the same.",
    },
    "AdvisorAvailable": {
        "Answering": "It answers.",
        "NotAsked": "No round has asked it yet.",
        "NotConfigured": "No LLM is configured, or its settings are incomplete. The message says which.",
        "SecretNotFound": "The Secret or its key does not exist. Create it: the next round uses it.",
        "NotGranted": "The operator may not read the Secret. Grant it by name: `llm.grantSecrets` of the chart.",
        "Unauthorized": "The provider refuses the key.",
        "Unreachable": "No connection, or no usable answer. Check `apiBase` and the NetworkPolicy.",
        "Timeout": "No answer within `llm.timeoutSeconds`.",
        "RateLimited": "The provider asks to slow down.",
        "OverBudget": "`budget.maxLLM…` is used up, or the provider's account is. Raise it.",
        "Rejected": "The provider refuses the request: the model's name, or a prompt that is too long.",
        "Malformed": "The answer is not what was asked for. A larger model helps.",
        "Unexpected": "Something else; the operator's log has it.",
    },
    "Seeded": {"Sweeping": "Under way.", "AxesSwept": "Done."},
    "Explored": {"Exploring": "Under way.", "RoundsDone": "Done."},
    "Validated": {
        "Measuring": "Under way; the message counts.",
        "Measured": "Done.",
        "NotMeasured": "The run ended before anything was measured: figures are projections.",
    },
    "Suspended": {
        "NotSuspended": "It is not.",
        "BySpec": "Set `spec.suspend` to false.",
        "ByAnnotation": "Remove the annotation `tunewright.dev/suspend`, or set it to false.",
    },
    "Finished": {
        "Sweeping": "Not finished: first phase.",
        "Exploring": "Not finished: second phase.",
        "Validating": "Not finished: third phase.",
        "NotAccepted": "Never began: see `Accepted`.",
        "LedgerUnreadable": "Held: ConfigMaps of the ledger are gone, old or damaged. Restore them.",
        "Blocked": "Held: the API server refuses something. The message has its words; it is tried again.",
        "Converged": "No proposal promised more.",
        "BudgetExhausted": "A budget is used up. A higher one lets the run go on.",
        "Stopped": "`spec.stop`.",
        "Failed": "The message says why.",
    },
    "Succeeded": {
        "NotFinished": "Not finished.",
        "Converged": "With a best configuration.",
        "BudgetExhausted": "With a best configuration.",
        "Stopped": "False: it was stopped. The best so far is in the result.",
        "Failed": "False: see `Finished`.",
    },
}
EVENTS: Mapping[str, str] = {
    "NotAccepted": "Warning: the condition `Accepted` became False",
    "NoCapacity": "Warning: `CapacityAvailable` became False",
    "AdvisorUnavailable": "Warning: `AdvisorAvailable` became False, unless no LLM is configured",
    "TrialFailed": "Warning: one for each failed trial, with class and message",
    "Prewarmed": "the trial image is on every node (`trial.prewarm`)",
    "PrewarmIncomplete": "Warning: it is not, and `pod.startDeadlineSeconds` are over; the run goes on",
}
_STATE_EVENTS = "Every other event has the name of the state that was reached; `Failed` is a warning."


def conditions_page() -> str:
    """Return the page."""
    states = [(code(name), STATES[name]) for name in get_args(State)]
    events = [(code(name), what) for name, what in EVENTS.items()]
    return page(
        "States, conditions, events",
        _INTRODUCTION,
        f"## States\n\n{table(('state', 'means'), states)}",
        *(_condition(name) for name in TYPES),
        f"## Events\n\n{_STATE_EVENTS}\n\n{table(('reason', 'when'), events)}",
    )


def _condition(name: str) -> str:
    rows = [(code(reason), what) for reason, what in REASONS[name].items()]
    return f"## Condition {name}\n\n{ABOUT[name]}\n\n{table(('reason', 'means, and what to do'), rows)}"
