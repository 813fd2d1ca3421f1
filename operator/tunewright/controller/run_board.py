"""What the statuses of all runs say now, as gauges. Told by the handlers of every run that the watch shows.

Gauges here describe objects that exist, so a restarted operator shows the same ones, and none before it has listed all:
a zero would be wrong. Read from the thread of the metrics' server.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from tunewright.adapters.kube.spec.status import State

_HOLDING = ("Accepted", "CapacityAvailable", "AdvisorAvailable", "Finished")
"""Conditions of which False may keep an unfinished run from going on as asked."""
_GOES_ON = frozenset({"NotConfigured", "NotAccepted", *get_args(State)})
"""Reasons that say nothing more is wrong: no LLM was asked for, Accepted says why, or the run is in this phase."""


@dataclass(frozen=True)
class RunFigures:
    """The few words of a status that are shown."""

    state: str
    held: tuple[tuple[str, str], ...]
    running: int


class RunBoard(Collector):
    """One entry for each run that exists."""

    def __init__(self) -> None:
        self._runs: dict[str, RunFigures] = {}
        self.is_complete = False

    def saw(self, key: str, status: Mapping[str, Any]) -> None:
        """Remember what a run's status says now."""
        self._runs[key] = figures_of(status)

    def forget(self, key: str) -> None:
        """A run is gone."""
        self._runs.pop(key, None)

    def has_seen(self, keys: set[str]) -> bool:
        """Tell whether the watch has shown all of these."""
        return keys <= self._runs.keys()

    def collect(self) -> Iterator[Metric]:
        """Yield the gauges, once every run is known."""
        if not self.is_complete:
            return
        runs = list(self._runs.values())  # one step for the interpreter: the event loop may change it meanwhile
        states = Counter(run.state for run in runs)
        by_state = GaugeMetricFamily("tunewright_runs", "TuningRuns that exist, by status.state", labels=["state"])
        for state in get_args(State):
            by_state.add_metric([state], states[state])
        yield by_state
        held = GaugeMetricFamily(
            "tunewright_runs_held",
            "Unfinished TuningRuns of which a condition is False for a reason that somebody may want to remove",
            labels=["condition", "reason"],
        )
        for labels, count in sorted(Counter(reason for run in runs for reason in run.held).items()):
            held.add_metric(labels, count)
        yield held
        yield GaugeMetricFamily(
            "tunewright_trials_running",
            "Trials under way, queued ones included, as the statuses of all TuningRuns say",
            value=sum(run.running for run in runs),
        )


def figures_of(status: Mapping[str, Any]) -> RunFigures:
    """Read a status as it is in the cluster: people may have written anything into it that the schema allows."""
    conditions = {item["type"]: item for item in status.get("conditions") or ()}
    is_finished = conditions.get("Finished", {}).get("status") == "True"
    held = () if is_finished else tuple(_held(conditions))
    running = (status.get("trials") or {}).get("running", 0)
    return RunFigures(status.get("state") or "Pending", held, 0 if is_finished else running)


def _held(conditions: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    for name in _HOLDING:
        condition = conditions.get(name, {})
        if condition.get("status") == "False" and condition["reason"] not in _GOES_ON:
            yield name, condition["reason"]
