"""The nearest legal configuration that has given values: single-axis neighbours with the smallest repair of the rest.

Called by the sweep, which varies one axis at a time, and for proposals of an LLM, whose changes may leave a dependent
field behind (a zero-bubble schedule with overlap switched on, a virtual pipeline without a pipeline).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tunewright.domain.axes import AXES
from tunewright.domain.config_batch import FIELDS, FloatArray
from tunewright.domain.training_config import TrainingConfig
from tunewright.search.space import Space

DEPENDENT_FIELDS = frozenset(
    {
        "virtual_pipeline_parallel_size",
        "pipeline_schedule",
        "pipeline_layout",
        "recompute_granularity",
        "recompute_modules",
        "recompute_method",
        "recompute_num_layers",
        "moe_dispatcher",
        "overlap_grad_reduce",
        "overlap_param_gather",
        "sync_free_stage",
    }
)
"""Fields that launch rules tie to others: changing one of them repairs a configuration without changing its idea."""

_DEGREES = frozenset(axis.field for axis in AXES if axis.kind == "degree")
_MAIN_WEIGHT = 100.0
_DISTANCE_WEIGHT = 0.01


@dataclass(frozen=True)
class Neighbour:
    """A row of the space and the fields that had to change beside the wanted ones."""

    row: int
    repaired: tuple[str, ...]


def nearest(
    space: Space, config: TrainingConfig, changes: Mapping[str, object], *, main_repairs: int = 1
) -> Neighbour | None:
    """Return the legal row with `changes` that differs least from `config` otherwise.

    Repairs of dependent fields are preferred; of the other fields at most `main_repairs` may change. Equal repairs
    are told apart by how far degrees move (in powers of two), then by the better estimate. None: no such row.
    """
    wanted = {**{name: getattr(config, name) for name in FIELDS}, **changes}
    rows = _rows_with(space, changes)
    if not len(rows):
        return None
    cost = np.zeros(len(rows))
    for name in FIELDS:
        if name not in changes:
            cost += _repair_cost(space, name, wanted[name], rows)
    allowed = rows[cost < (main_repairs + 1) * _MAIN_WEIGHT]
    if not len(allowed):
        return None
    cost = cost[cost < (main_repairs + 1) * _MAIN_WEIGHT]
    best = allowed[np.lexsort((allowed, -space.tokens_per_second_per_gpu[allowed], np.round(cost, 6)))[0]]
    return Neighbour(int(best), _repairs(space, int(best), wanted))


def _rows_with(space: Space, changes: Mapping[str, object]) -> np.ndarray:
    keep = np.ones(len(space), dtype=bool)
    for name, value in changes.items():
        keep &= space.batch.columns[name] == space.code(name, value)
    return np.flatnonzero(keep)


def _repair_cost(space: Space, name: str, value: object, rows: np.ndarray) -> FloatArray:
    """Return what it costs that rows have another value; one entry for all where the field has one value only."""
    alike = len(space.values(name)) == 1
    column, code = space.batch.columns[name][rows[:1] if alike else rows], space.code(name, value)
    weight = 1.0 if name in DEPENDENT_FIELDS else _MAIN_WEIGHT
    cost = np.where(column == code, 0.0, weight)
    if name in _DEGREES and code > 0:
        degrees = np.maximum(np.arange(column.max(initial=0) + 1), 1)
        cost += (_DISTANCE_WEIGHT * np.abs(np.log2(degrees) - np.log2(code)))[column]
    return cost


def _repairs(space: Space, row: int, wanted: Mapping[str, object]) -> tuple[str, ...]:
    return tuple(name for name in FIELDS if space.batch.columns[name][row] != space.code(name, wanted[name]))
