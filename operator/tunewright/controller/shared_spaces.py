"""Search spaces that several runs have in common: built once, and gone with the last run. Called by `wiring`.

Two hundred runs that differ in their budgets alone would otherwise hold the same arrays two hundred times.
"""

import hashlib
import threading
from weakref import WeakValueDictionary

from tunewright.domain.problem import TuningProblem
from tunewright.domain.value import canonical_json
from tunewright.planner.settings import PlannerSettings
from tunewright.search.space import Space, build_space


class SharedSpaces:
    """Spaces in use, by digest of what they are made from. May be asked from several threads."""

    def __init__(self) -> None:
        self._spaces: WeakValueDictionary[str, Space] = WeakValueDictionary()
        self._building = threading.Lock()

    def build(self, problem: TuningProblem, settings: PlannerSettings) -> Space:
        """Return the space of a run; its arrays are those of every other run with the same one."""
        digest = _digest(problem, settings)
        with self._building:
            space = self._spaces.get(digest)
            if space is None:
                space = self._spaces[digest] = build_space(problem, settings)
            return space.for_another_run()


def _digest(problem: TuningProblem, settings: PlannerSettings) -> str:
    made_from = (problem.to_json(), settings.baseline.to_json(), settings.to_json().get("searchSpace"))
    return hashlib.sha256(canonical_json(made_from).encode()).hexdigest()
