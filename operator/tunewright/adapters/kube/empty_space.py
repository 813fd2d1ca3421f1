"""Says why a search space holds nothing: the rules that reject most of what was asked for. Called by `acceptance`."""

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from tunewright.domain.axes import AxisValue
from tunewright.domain.config_batch import FIELDS, ConfigBatch
from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import TrainingConfig
from tunewright.legality.verdicts import judge
from tunewright.planner.settings import PlannerSettings
from tunewright.search.enumeration import encode

_MOST_JUDGED = 4096
_MOST_NAMED = 3


def why_empty(problem: TuningProblem, settings: PlannerSettings) -> str:
    """Return the rules that reject most combinations of the asked values, the baseline's values in all other fields."""
    batch = _asked(settings.baseline, settings.search_space)
    counts = sorted(judge(problem, batch).by_rule.items(), key=lambda item: (-item[1], item[0]))
    if not counts:
        return "the values do not go together with the defaults of the other axes"
    named = ", ".join(f"{rule} {count}" for rule, count in counts[:_MOST_NAMED])
    return f"with the baseline's other values, these rules reject most of {len(batch)} combinations: {named}"


def _asked(baseline: TrainingConfig, search_space: Mapping[str, Sequence[AxisValue]]) -> ConfigBatch:
    """Return every combination of the asked values, or as many, evenly spread, as are judged at once."""
    layouts = [str(value) for value in search_space.get("pipeline_layout", ())]
    base = ConfigBatch.of([baseline, *(baseline.model_copy(update={"pipeline_layout": name}) for name in layouts)])
    total = prod(len(values) for values in search_space.values())
    rows = min(total, _MOST_JUDGED)
    places = [number * total // rows for number in range(rows)]
    columns = {name: np.repeat(base.columns[name][:1], rows) for name in FIELDS}
    for name, values in search_space.items():
        codes = np.array([encode(name, value, base.layouts) for value in values], dtype=np.int64)
        columns[name] = codes[[place % len(values) for place in places]]
        places = [place // len(values) for place in places]
    return ConfigBatch(columns=columns, layouts=base.layouts)
