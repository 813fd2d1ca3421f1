"""Every legal configuration of a problem, as one batch. Called by `space`.

The product of the axes is built in three crossings (degrees, pipeline, computation), each pruned at once by
conditions that every launch rule set implies, so that the full product never exists; the launch rules then judge
what is left. The order of the rows follows the order of the values, so equal inputs give equal batches.
"""

from collections.abc import Mapping
from math import prod

import numpy as np

from tunewright import legality
from tunewright.domain.axes import AxisValue
from tunewright.domain.config_batch import (
    CATEGORIES,
    FIELDS,
    BoolArray,
    ConfigBatch,
    IntArray,
    among,
    code_of,
    module_bit,
)
from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import EVEN_LAYOUT, SHORTER_EDGES_LAYOUT, V_SHAPED_SCHEDULES
from tunewright.domain.training_config import ZERO_BUBBLE_SCHEDULES as SPLIT_SCHEDULES
from tunewright.errors import InvalidInput
from tunewright.search.axis_values import Values, axis_values

MOST_CANDIDATES = 1_500_000
"""Points that are judged at most: a person's own values may span a product that no memory holds."""
MOST_LEGAL = 200_000
"""Points that are estimated at most: what the largest clusters need by default, and some seconds of work."""

SYNC_FREE_ACCELERATORS = frozenset({"mi355x"})
"""Where sync-free stage 1 accompanies DeepEP by default: the device of AMD's published measurements."""

_DEGREES = (
    "tensor_parallel_size",
    "context_parallel_size",
    "pipeline_parallel_size",
    "expert_parallel_size",
    "expert_tensor_parallel_size",
    "micro_batch_size",
)
_PIPELINE = ("pipeline_schedule", "virtual_pipeline_parallel_size", "pipeline_layout")
_RECOMPUTATION = ("recompute_granularity", "recompute_modules", "recompute_method", "recompute_num_layers")
_DERIVED = ("overlap_grad_reduce", "overlap_param_gather", "sync_free_stage")

Table = dict[str, IntArray]


def enumerate_space(problem: TuningProblem, search_space: Mapping[str, Values]) -> ConfigBatch:
    """Return every legal configuration under the default axis values, or a person's own where `search_space` has some.

    The batch may be empty. Raises `InvalidInput` for impossible values and for a product that is too large.
    """
    values = axis_values(problem, search_space)
    layouts = tuple(dict.fromkeys([EVEN_LAYOUT, *(str(name) for name in values["pipeline_layout"])]))
    table = _plausible_degrees(problem, _product(_encoded(values, _DEGREES, layouts)))
    pipelines = _own_chunks(_product(_encoded(values, _PIPELINE, layouts)))
    table = _plausible_pipelines(problem, _crossed(table, pipelines), layouts)
    table = _plausible_computation(_crossed(table, _computation_options(values, layouts)))
    table = _with_derived(problem, table, values)
    batch = ConfigBatch(columns={field: table[field] for field in FIELDS}, layouts=layouts)
    legal = batch.take(legality.judge(problem, batch).legal) if len(batch) else batch
    _check_size(len(legal), MOST_LEGAL, "legal configurations")
    return legal


def encode(field: str, value: AxisValue, layouts: tuple[str, ...]) -> int:
    """Return the column code of one axis value."""
    if field in CATEGORIES:
        return code_of(field, str(value))
    if field == "recompute_modules":
        return sum(module_bit(module) for module in str(value).split("+") if module)
    return layouts.index(str(value)) if field == "pipeline_layout" else int(value)


def _encoded(values: Mapping[str, Values], fields: tuple[str, ...], layouts: tuple[str, ...]) -> Table:
    return {
        field: np.array([encode(field, value, layouts) for value in values[field]], dtype=np.int64) for field in fields
    }


def _product(columns: Table) -> Table:
    _check_size(prod(len(values) for values in columns.values()))
    grids = np.meshgrid(*columns.values(), indexing="ij")
    return {name: grid.reshape(-1) for name, grid in zip(columns, grids, strict=True)}


def _crossed(left: Table, right: Table) -> Table:
    """Combine every row of `left` with every row of `right`."""
    rows, options = len(next(iter(left.values()))), len(next(iter(right.values())))
    _check_size(rows * options)
    return {name: np.repeat(column, options) for name, column in left.items()} | {
        name: np.tile(column, rows) for name, column in right.items()
    }


def _check_size(found: int, most: int = MOST_CANDIDATES, what: str = "combinations") -> None:
    if found > most:
        remedy = f"spans more than {most:,} {what}: name fewer values"
        raise InvalidInput.of("spec.searchSpace", found, remedy)


def _kept(table: Table, keep: BoolArray) -> Table:
    return {name: column[keep] for name, column in table.items()}


def _plausible_degrees(problem: TuningProblem, table: Table) -> Table:
    """Keep degrees that divide the world size and the batch."""
    world = problem.world_size
    ranks = table["tensor_parallel_size"] * table["context_parallel_size"] * table["pipeline_parallel_size"]
    experts = table["expert_tensor_parallel_size"] * table["expert_parallel_size"] * table["pipeline_parallel_size"]
    data = np.maximum(world // ranks, 1)
    whole_steps = problem.global_batch_size % (table["micro_batch_size"] * data) == 0
    return _kept(table, (world % ranks == 0) & (world % experts == 0) & whole_steps)


def _own_chunks(table: Table) -> Table:
    """Keep schedules with the virtual pipeline that they fix; most combinations of the two are none."""
    chunks, v_shaped = table["virtual_pipeline_parallel_size"], _runs(table, V_SHAPED_SCHEDULES)
    interleaved = table["pipeline_schedule"] == code_of("pipeline_schedule", "interleaved-1f1b")
    return _kept(table, np.where(v_shaped, chunks == 2, np.where(interleaved, chunks > 1, chunks == 1)))


def _plausible_pipelines(problem: TuningProblem, table: Table, layouts: tuple[str, ...]) -> Table:
    """Keep schedules where there is a pipeline, and layouts that the number of layers allows."""
    ranks, chunks = table["pipeline_parallel_size"], table["virtual_pipeline_parallel_size"]
    piped = (ranks > 1) | (table["pipeline_schedule"] == code_of("pipeline_schedule", "1f1b"))
    divides = problem.model.num_layers % (ranks * chunks) == 0
    layout = table["pipeline_layout"]
    uneven = layout == layouts.index(SHORTER_EDGES_LAYOUT) if SHORTER_EDGES_LAYOUT in layouts else layout < 0
    laid_out = np.where(layout == layouts.index(EVEN_LAYOUT), divides, ~(uneven & divides))
    return _kept(table, piped & laid_out & (ranks * chunks <= problem.model.num_layers))


def _computation_options(values: Mapping[str, Values], layouts: tuple[str, ...]) -> Table:
    rest = [field for field in values if field not in (*_DEGREES, *_PIPELINE, *_RECOMPUTATION, *_DERIVED)]
    table = _product(_encoded(values, tuple(rest), layouts))
    recomputation = np.array(_recomputation_options(values), dtype=np.int64)
    return _crossed(table, dict(zip(_RECOMPUTATION, recomputation.T, strict=True)))


def _recomputation_options(values: Mapping[str, Values]) -> list[tuple[int, ...]]:
    """Modules belong to `selective`, method and layer count to `full`; elsewhere they keep their defaults."""
    default = (encode("recompute_method", "uniform", ()), 1)
    options: dict[tuple[int, ...], None] = {}
    for granularity in values["recompute_granularity"]:
        code = encode("recompute_granularity", granularity, ())
        if granularity == "selective":
            modules = [encode("recompute_modules", value, ()) for value in values["recompute_modules"]]
            options |= {(code, module, *default): None for module in modules}
        elif granularity == "full":
            methods = [encode("recompute_method", value, ()) for value in values["recompute_method"]]
            layers = [int(value) for value in values["recompute_num_layers"]]
            options |= {(code, 0, method, count): None for method in methods for count in layers}
        else:
            options[(code, 0, *default)] = None
    return list(options)


def _plausible_computation(table: Table) -> Table:
    """Keep what does not recompute a split backward pass, and DeepEP only where there is somebody to send to."""
    split = _runs(table, SPLIT_SCHEDULES)
    recomputes = table["recompute_granularity"] != code_of("recompute_granularity", "none")
    deepep = table["moe_dispatcher"] == code_of("moe_dispatcher", "deepep")
    alone = table["expert_parallel_size"] * table["expert_tensor_parallel_size"] == 1
    return _kept(table, ~(split & recomputes) & ~(deepep & alone))


def _with_derived(problem: TuningProblem, table: Table, values: Mapping[str, Values]) -> Table:
    """Add the fields whose default follows from the others: overlap on where the runner allows, sync-free stage."""
    asked = {field: np.array([int(value) for value in values[field]]) for field in _DERIVED if field in values}
    if asked:
        table = _crossed(table, _product(asked))
    may_overlap = ~(_runs(table, SPLIT_SCHEDULES) & (problem.backend == "primus"))
    table.setdefault("overlap_grad_reduce", may_overlap.astype(np.int64))
    sharded = table["optimizer"] == code_of("optimizer", "distributed")
    gathers = may_overlap & sharded & (table["overlap_grad_reduce"] == 1)
    table.setdefault("overlap_param_gather", gathers.astype(np.int64))
    table.setdefault("sync_free_stage", _default_sync_free(problem, table))
    return table


def _default_sync_free(problem: TuningProblem, table: Table) -> IntArray:
    available = problem.backend == "primus" and problem.cluster.accelerator.name in SYNC_FREE_ACCELERATORS
    deepep = table["moe_dispatcher"] == code_of("moe_dispatcher", "deepep")
    return (deepep & available).astype(np.int64)


def _runs(table: Table, schedules: frozenset[str]) -> BoolArray:
    return among(table["pipeline_schedule"], [code_of("pipeline_schedule", name) for name in schedules])
