"""The search space of a run: every legal configuration with its memory verdict and its analytic estimate.

Built once per run by `build_space` (operator, command line, replay) and read by the planner. Nothing in it depends on
a trial. It holds arrays of one value per row; itemised figures of a row are computed again when somebody asks.
"""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from tunewright import legality
from tunewright.domain.config_batch import CATEGORIES, FIELDS, BoolArray, ConfigBatch, FloatArray, IntArray, module_bit
from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import TrainingConfig
from tunewright.domain.value import Value
from tunewright.memory.estimate import estimate as estimate_memory
from tunewright.memory.fit import FitVerdict
from tunewright.memory.fit import fit as judge_memory
from tunewright.memory.screening import screen
from tunewright.performance.profile_key import profile_groups, profile_key
from tunewright.performance.step import estimate as estimate_step
from tunewright.search.axis_values import Values
from tunewright.search.enumeration import enumerate_space

HELD_AXES = ("precision", "optimizer", "cross_entropy_fusion", "expert_tensor_parallel_size")
"""Axes of one default value: unless values are named, they stay at the baseline's."""


_LARGEST_KEPT_BYTES = 31 * 2**20
"""Just below what glibc's threshold can become, 32 MiB."""


class SpaceSettings(Protocol):
    """What a space is made from, beside the problem. `PlannerSettings` is one."""

    @property
    def baseline(self) -> TrainingConfig:
        """The configuration to beat; part of the space even where the axis values do not reach it."""

    @property
    def search_space(self) -> dict[str, Values]:
        """Values by field of `TrainingConfig`."""


class SpaceCounts(Value):
    """Points of a space. `fitting` includes `tight`; `legal` is `fitting` and `filtered` together."""

    legal: int
    fitting: int
    tight: int
    filtered: int


@dataclass(frozen=True, eq=False)
class Space:
    """Legal configurations, one row each."""

    problem: TuningProblem
    batch: ConfigBatch
    fits: BoolArray
    tight: BoolArray
    allocated_bytes: FloatArray
    """Predicted peak allocation of the worst rank."""
    tokens_per_second_per_gpu: FloatArray
    """Estimated by the analytic model alone."""
    parts: Mapping[str, FloatArray]
    """Estimated seconds of one step, by part."""
    key_index: IntArray
    """Rows with the same number have the same profile key."""
    memo: dict[Any, Any] = field(default_factory=dict, repr=False)
    """Results of pure functions of this space, kept by their callers to save time. Never decides anything."""

    def __len__(self) -> int:
        return len(self.batch)

    def for_another_run(self) -> "Space":
        """Return this space for a run of its own: it shares the arrays, and remembers nothing of other runs.

        What it holds in its place keeps the first one alive, for as long as somebody uses it.
        """
        _ = self.codes, self.counts, self.ranking, self._rows, self._values, self._keys  # made once, shared by all
        own = copy(self)
        object.__setattr__(own, "memo", {"shared with": self})
        return own

    @cached_property
    def counts(self) -> SpaceCounts:
        """How many points are legal, fitting, tight and filtered."""
        fitting = int(self.fits.sum())
        return SpaceCounts(legal=len(self), fitting=fitting, tight=int(self.tight.sum()), filtered=len(self) - fitting)

    @cached_property
    def step_seconds(self) -> FloatArray:
        """Estimated seconds of one optimizer step."""
        return sum(self.parts.values(), np.zeros(len(self)))

    @cached_property
    def codes(self) -> IntArray:
        """Every row as codes, shape (rows, fields)."""
        return np.ascontiguousarray(np.stack([self.batch.columns[name] for name in FIELDS], axis=1))

    def row_of(self, config: TrainingConfig) -> int | None:
        """Return the row of a configuration, or None where it is not in the space."""
        codes = self.codes_of(config)
        return None if codes is None else self._rows.get(codes.tobytes())

    def codes_of(self, config: TrainingConfig) -> IntArray | None:
        """Return a configuration as codes of this space; None where its layout is not one of the space's."""
        if config.pipeline_layout not in self.batch.layouts:
            return None
        return np.array([self.code(name, getattr(config, name)) for name in FIELDS], dtype=np.int64)

    def code(self, field_name: str, value: object) -> int:
        """Return the code of one value; -1 where no row could have it."""
        if field_name in CATEGORIES:
            return CATEGORIES[field_name].index(str(value))
        if field_name == "recompute_modules":
            return sum(module_bit(module) for module in value) if isinstance(value, tuple) else -1
        if field_name == "pipeline_layout":
            return self.batch.layouts.index(str(value)) if value in self.batch.layouts else -1
        return int(value) if isinstance(value, int) else -1

    def config(self, row: int) -> TrainingConfig:
        """Return the configuration of a row."""
        return self.batch.config(row)

    def values(self, field_name: str) -> tuple[Any, ...]:
        """Return the values that a field takes in this space, in the order of their codes."""
        return self._values[field_name]

    def profile_key(self, row: int) -> str:
        """Return the profile key of a row."""
        group = int(self.key_index[row])
        if group not in self._keys:
            self._keys[group] = profile_key(self.problem, self.config(row))
        return self._keys[group]

    def memory_verdict(self, row: int) -> FitVerdict:
        """Compute the itemised memory verdict of one row; its only row is 0."""
        batch = self.batch.take([row])
        return judge_memory(self.problem, estimate_memory(self.problem, batch))

    def memory_percent(self, row: int) -> float:
        """Return the predicted allocation in percent of the usable memory."""
        return 100 * float(self.allocated_bytes[row]) / self.problem.cluster.accelerator.hbm_capacity_bytes

    @cached_property
    def ranking(self) -> IntArray:
        """Fitting rows by estimate, best first; equal ones in the order of the space."""
        rows = np.flatnonzero(self.fits)
        return rows[np.argsort(-self.tokens_per_second_per_gpu[rows], kind="stable")]

    @cached_property
    def _rows(self) -> dict[bytes, int]:
        whole_rows = self.codes.view(np.dtype((np.void, self.codes.strides[0])))
        return dict(zip(whole_rows[:, 0].tolist(), range(len(self)), strict=True))

    @cached_property
    def _keys(self) -> dict[int, str]:
        return {}

    @cached_property
    def _values(self) -> dict[str, tuple[Any, ...]]:
        found = {}
        for name in FIELDS:
            column = self.batch.columns[name]
            rows = [int((column == code).argmax()) for code in np.flatnonzero(np.bincount(column))]
            found[name] = tuple(getattr(self.config(row), name) for row in rows)
        return found


def build_space(problem: TuningProblem, settings: SpaceSettings) -> Space:
    """Enumerate, filter and estimate the space of a run. The baseline belongs to it if it is legal.

    An empty space is a space of no rows; raises `InvalidInput` for values that no field can have.
    """
    _keep_freed_memory()
    batch = _with_baseline(problem, enumerate_space(problem, _search_space(settings)), settings.baseline)
    with ThreadPoolExecutor(max_workers=1) as second_core:  # arrays release the interpreter's lock
        screening = second_core.submit(screen, problem, batch)
        step = estimate_step(problem, batch)
        memory = screening.result()
    return Space(
        problem=problem,
        batch=batch,
        fits=memory.fits,
        tight=memory.tight,
        allocated_bytes=memory.allocated_bytes,
        tokens_per_second_per_gpu=step.tokens_per_second_per_gpu,
        parts=step.parts,
        key_index=profile_groups(problem, batch)[1],
    )


def _keep_freed_memory() -> None:
    """Let thousands of arrays that live for a moment reuse each other's memory, instead of mapping pages for each.

    glibc hands what is freed back to the system at once until it has seen something large freed: this, never touched.
    """
    np.empty(_LARGEST_KEPT_BYTES, dtype=np.uint8)


def _search_space(settings: SpaceSettings) -> dict[str, Values]:
    held = {name: (getattr(settings.baseline, name),) for name in HELD_AXES}
    return held | settings.search_space


def _with_baseline(problem: TuningProblem, batch: ConfigBatch, baseline: TrainingConfig) -> ConfigBatch:
    layouts = tuple(dict.fromkeys([*batch.layouts, baseline.pipeline_layout]))
    alone = ConfigBatch.of([baseline])
    if not legality.judge(problem, alone).legal[0]:
        return batch
    code = layouts.index(baseline.pipeline_layout)
    codes = {name: alone.columns[name] for name in FIELDS} | {"pipeline_layout": np.array([code], dtype=np.int64)}
    present = np.ones(len(batch), dtype=bool)
    for name in FIELDS:
        present &= batch.columns[name] == codes[name][0]
    if present.any():
        return batch
    columns = {name: np.concatenate([batch.columns[name], codes[name]]) for name in FIELDS}
    return ConfigBatch(columns=columns, layouts=layouts)
