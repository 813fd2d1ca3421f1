"""The plan of the first phase: which values of which axis are tried, in which order, with which repairs.

Called by `seed`, by the axis table and by the forecast. Depends on the space and the settings alone, so it is the
same at every moment of a run.
"""

from dataclasses import dataclass

from tunewright.domain.axes import AXES, AxisValue, axis_named
from tunewright.domain.training_config import TrainingConfig
from tunewright.errors import InvalidInput
from tunewright.planner.changes import with_changes
from tunewright.planner.settings import PlannerSettings
from tunewright.search.neighbourhood import nearest
from tunewright.search.space import Space

_FOLLOWING = frozenset(
    {
        "recompute_modules",
        "recompute_method",
        "recompute_num_layers",
        "overlap_grad_reduce",
        "overlap_param_gather",
        "sync_free_stage",
    }
)
"""Fields that follow another axis by default, and are axes of their own only when values are named for them."""


@dataclass(frozen=True)
class Step:
    """One value of one axis. `config` is the repaired neighbour, or, where none is legal, the bare change."""

    axis: str
    value: object
    config: TrainingConfig
    repaired: tuple[str, ...]
    legal: bool


def sweep_plan(space: Space, settings: PlannerSettings) -> tuple[Step, ...]:
    """Return every step: axes by expected effect, or as the settings list them; values by estimate within an axis."""
    key = ("sweep", settings.baseline, settings.sweep_axes, tuple(sorted(settings.search_space.items())))
    if key not in space.memo:
        space.memo[key] = _planned(space, settings)
    plan: tuple[Step, ...] = space.memo[key]
    return plan


def searched_axes(space: Space, settings: PlannerSettings) -> tuple[str, ...]:
    """Return the fields that take more than one value, asked for or in the space; in the order of `AXES`."""
    fields = [axis.field for axis in AXES if axis.field not in _FOLLOWING or axis.field in settings.search_space]
    return tuple(field for field in fields if len(_values(space, settings, field)) > 1)


def _planned(space: Space, settings: PlannerSettings) -> tuple[Step, ...]:
    asked = [axis_named(name).field for name in settings.sweep_axes]
    by_axis = {field: _steps(space, settings, field) for field in asked or searched_axes(space, settings)}
    order = list(by_axis)
    if not asked:
        order.sort(key=lambda field: -max((_gain(space, step) for step in by_axis[field]), default=0.0))
    return tuple(step for field in order for step in by_axis[field])


def _steps(space: Space, settings: PlannerSettings, field: str) -> list[Step]:
    others = [value for value in _values(space, settings, field) if value != getattr(settings.baseline, field)]
    steps = [_step(space, settings.baseline, field, value) for value in others]
    return sorted((step for step in steps if step is not None), key=lambda step: -_gain(space, step))


def _step(space: Space, baseline: TrainingConfig, field: str, value: object) -> Step | None:
    neighbour = nearest(space, baseline, {field: value})
    if neighbour is not None:
        return Step(field, value, space.config(neighbour.row), neighbour.repaired, legal=True)
    try:
        bare = with_changes(space.problem, baseline, {field: value})
    except InvalidInput:
        return None  # no configuration has this value: nothing that a verdict could be given on
    return Step(field, value, bare, (), legal=False)


def _gain(space: Space, step: Step) -> float:
    row = space.row_of(step.config)
    return float(space.tokens_per_second_per_gpu[row]) if row is not None and space.fits[row] else 0.0


def _values(space: Space, settings: PlannerSettings, field: str) -> list[object]:
    found: list[object] = list(space.values(field)) if len(space) else []
    for value in settings.search_space.get(field, ()):
        typed = _typed(field, value)
        if typed not in found:
            found.append(typed)
    return found


def _typed(field: str, value: AxisValue) -> object:
    return tuple(sorted(str(value).split("+"))) if field == "recompute_modules" else value
