"""The only input of `decide`: what is to be tuned, what is allowed, what can be tried and what happened so far."""

from dataclasses import dataclass

from tunewright.domain.problem import TuningProblem
from tunewright.planner.settings import PlannerSettings
from tunewright.planner.state import RunState
from tunewright.search.space import Space


@dataclass(frozen=True)
class Snapshot:
    """One moment of a run. `settings` are those in force: the header's, or the latest `SettingsChanged`."""

    problem: TuningProblem
    settings: PlannerSettings
    space: Space
    state: RunState
    elapsed_seconds: float = 0.0
    """Active time of the run, without queueing and suspension."""
