"""Many configurations as a structure of arrays: the form in which every rule and formula sees them.

`ConfigBatch` has one column per field of `TrainingConfig`. Numbers are int64; categorical fields are codes into
their tuple of names (`code_of`); `recompute_modules` is a bit mask; layouts are codes into `layouts`. One
configuration is a batch of length one, so there is no second, scalar implementation of anything.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tunewright.domain.training_config import (
    MOE_DISPATCHERS,
    OPTIMIZERS,
    PIPELINE_SCHEDULES,
    PRECISIONS,
    RECOMPUTE_GRANULARITIES,
    RECOMPUTE_METHODS,
    RECOMPUTE_MODULES,
    TrainingConfig,
)

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]

CATEGORIES: Mapping[str, tuple[str, ...]] = {
    "recompute_granularity": RECOMPUTE_GRANULARITIES,
    "recompute_method": RECOMPUTE_METHODS,
    "moe_dispatcher": MOE_DISPATCHERS,
    "pipeline_schedule": PIPELINE_SCHEDULES,
    "precision": PRECISIONS,
    "optimizer": OPTIMIZERS,
}
SWITCHES = frozenset({"overlap_grad_reduce", "overlap_param_gather", "cross_entropy_fusion"})
FIELDS: tuple[str, ...] = tuple(TrainingConfig.model_fields)
_LARGEST_CODE = 2**62
"""Codes of combined columns stay below it, so that they fit in 64 bits."""


def code_of(field_name: str, name: str) -> int:
    """Return the code of a categorical value, such as ``code_of("pipeline_schedule", "v-half")``."""
    return CATEGORIES[field_name].index(name)


def among(column: IntArray, values: Iterable[int]) -> BoolArray:
    """Return where a column has one of a few values: comparisons are much faster than `np.isin`."""
    found: BoolArray = np.zeros(len(column), dtype=bool)
    for value in values:
        found |= column == value
    return found


def module_bit(module: str) -> int:
    """Return the bit of a recompute module in the `recompute_modules` column."""
    return 1 << RECOMPUTE_MODULES.index(module)


@dataclass(frozen=True, eq=False)
class ConfigBatch:
    """`columns[name][i]` is field `name` of configuration `i`, encoded as the module docstring says."""

    columns: Mapping[str, IntArray]
    layouts: tuple[str, ...] = field(default=("even",))

    def __len__(self) -> int:
        return len(self.columns["tensor_parallel_size"])

    def __getattr__(self, name: str) -> IntArray:
        if name in FIELDS:
            return self.columns[name]
        raise AttributeError(name)

    def is_(self, field_name: str, *names: str) -> BoolArray:
        """Return where a categorical column has one of `names`."""
        return among(self.columns[field_name], [code_of(field_name, name) for name in names])

    def recomputes(self, module: str) -> BoolArray:
        """Return where `selective` recomputation covers `module`."""
        covered: BoolArray = (self.columns["recompute_modules"] & module_bit(module)) != 0
        return covered

    def take(self, rows: NDArray[Any] | Sequence[int]) -> "ConfigBatch":
        """Select rows by index or mask."""
        return replace(self, columns={name: column[rows] for name, column in self.columns.items()})

    def distinct(self, fields: Iterable[str]) -> tuple[IntArray, IntArray]:
        """Return the first row of each distinct combination of `fields`, and for every row the position of its own."""
        combined, span = np.zeros(len(self), dtype=np.int64), 1
        for name in fields:
            column = self.columns[name]
            width = int(column.max(initial=0)) + 1
            if span * width >= _LARGEST_CODE:
                found, combined = np.unique(combined, return_inverse=True)
                span = len(found)
            combined, span = combined * width + column, span * width
        _, first, index = np.unique(combined, return_index=True, return_inverse=True)
        return first, index

    def config(self, row: int) -> TrainingConfig:
        """Decode one row into a `TrainingConfig`."""
        return TrainingConfig(**{name: self._decode(name, int(self.columns[name][row])) for name in FIELDS})

    def configs(self) -> list[TrainingConfig]:
        """Decode every row. Slow for large batches: meant for short lists."""
        return [self.config(row) for row in range(len(self))]

    @cached_property
    def layout_names(self) -> NDArray[np.object_]:
        """The layout of every row as text."""
        return np.array(self.layouts, dtype=object)[self.columns["pipeline_layout"]]

    def _decode(self, name: str, value: int) -> object:
        if name in CATEGORIES:
            return CATEGORIES[name][value]
        if name == "recompute_modules":
            return tuple(module for module in RECOMPUTE_MODULES if value & module_bit(module))
        if name == "pipeline_layout":
            return self.layouts[value]
        return bool(value) if name in SWITCHES else value

    @classmethod
    def of(cls, configs: Iterable[TrainingConfig]) -> "ConfigBatch":
        """Encode configurations, in order."""
        rows = list(configs)
        layouts = tuple(dict.fromkeys(["even", *(config.pipeline_layout for config in rows)]))
        columns = {name: _column(rows, name, _encoder(name, layouts)) for name in FIELDS}
        return cls(columns=columns, layouts=layouts)


def _column(rows: Sequence[TrainingConfig], name: str, encode: Callable[[Any], int]) -> IntArray:
    return np.array([encode(getattr(config, name)) for config in rows], dtype=np.int64)


def _encoder(name: str, layouts: tuple[str, ...]) -> Callable[[Any], int]:
    if name in CATEGORIES:
        return CATEGORIES[name].index
    if name == "recompute_modules":
        return lambda modules: sum(module_bit(module) for module in modules)
    return layouts.index if name == "pipeline_layout" else int
