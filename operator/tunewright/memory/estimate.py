"""Bytes of every pipeline rank, itemised. Called by the planner, the search and the command line.

One call estimates a whole `ConfigBatch`. Three totals, since published and measured figures have three meanings:
allocated (peak of live tensors in torch), reserved (what the caching allocator took) and device (what the driver
reports as used). Each total is the sum of items, so a breakdown never disagrees with it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tunewright.domain.config_batch import BoolArray, ConfigBatch, FloatArray, IntArray
from tunewright.domain.degrees import Degrees
from tunewright.domain.parameter_placement import on_rank, padded_vocabulary
from tunewright.domain.pipeline_layout import StageTable
from tunewright.domain.problem import TuningProblem
from tunewright.memory.activations import activations, saved_bytes
from tunewright.memory.backward import layer_gradients, weight_gradient_buffers
from tunewright.memory.communication import dispatch_bytes
from tunewright.memory.constants import MemoryConstants, constants_for
from tunewright.memory.in_flight import in_flight
from tunewright.memory.logits import is_eager, logits_bytes
from tunewright.memory.saved_bytes import total
from tunewright.memory.software import DEFAULT, Software
from tunewright.memory.states import states

KINDS: Mapping[str, tuple[str, ...]] = {
    "weights": ("weights", "weight_casts", "gathered_weights"),
    "gradients": ("gradients", "unreduced_gradients"),
    "optimizer": ("optimizer", "optimizer_step"),
    "activations": (
        "attention",
        "mlp",
        "router",
        "shared_experts",
        "experts",
        "recompute_inputs",
        "recomputed_unit",
        "head",
    ),
    "logits": ("logits", "waiting_logit_gradients"),
    "communication": ("dispatch_buffers", "dispatch_transient"),
    "workspace": ("layer_gradients", "weight_gradient_buffers", "workspace"),
    "slack": ("slack",),
    "context": ("context", "collectives"),
}
"""Kinds of memory and their items, in the order in which people read them."""

ALLOCATED_KINDS = tuple(kind for kind in KINDS if kind not in ("slack", "context"))
CHANGING_KINDS = ("activations", "logits", "communication", "workspace")
"""Kinds that are allocated and freed within a step, and so fragment the allocator; states stay where they are."""


@dataclass(frozen=True)
class MemoryEstimate:
    """`items[name]` are bytes of shape (rows, ranks), 0 where a row has no such rank; `KINDS` groups the names."""

    items: Mapping[str, FloatArray]
    rank_exists: BoolArray

    @cached_property
    def by_kind(self) -> dict[str, FloatArray]:
        """Bytes of each kind, shape (rows, ranks); their sum is `device_by_rank`."""
        return {kind: _sum([self.items[name] for name in names]) for kind, names in KINDS.items()}

    @cached_property
    def allocated_by_rank(self) -> FloatArray:
        """Peak bytes of live tensors, shape (rows, ranks)."""
        return _sum([self.items[name] for kind in ALLOCATED_KINDS for name in KINDS[kind]])

    @cached_property
    def reserved_by_rank(self) -> FloatArray:
        """Allocated bytes and the allocator's slack, shape (rows, ranks)."""
        return self.allocated_by_rank + self.items["slack"]

    @cached_property
    def device_by_rank(self) -> FloatArray:
        """Reserved bytes and what lies outside the allocator, shape (rows, ranks)."""
        return self.reserved_by_rank + self.items["context"] + self.items["collectives"]

    @cached_property
    def worst_rank(self) -> IntArray:
        """The rank with the largest allocation, per row."""
        ranks: IntArray = self.allocated_by_rank.argmax(axis=1)
        return ranks

    @property
    def allocated_bytes(self) -> FloatArray:
        """Peak allocation of the worst rank, per row: what `torch.cuda.max_memory_allocated` would report."""
        return _worst(self.allocated_by_rank)

    @property
    def reserved_bytes(self) -> FloatArray:
        """Peak reservation of the worst rank, per row."""
        return _worst(self.reserved_by_rank)

    @property
    def device_bytes(self) -> FloatArray:
        """Peak device usage of the worst rank, per row."""
        return _worst(self.device_by_rank)

    def breakdown(self, row: int) -> list[dict[str, float]]:
        """Return the items of each existing rank of one row, then `allocated`, `reserved` and `device`; bytes."""
        return [self._rank(row, int(rank)) for rank in np.flatnonzero(self.rank_exists[row])]

    def kinds_of(self, row: int, rank: int) -> dict[str, float]:
        """Return the bytes of each kind on one rank."""
        return {kind: float(size[row, rank]) for kind, size in self.by_kind.items()}

    def _rank(self, row: int, rank: int) -> dict[str, float]:
        items = {name: float(size[row, rank]) for name, size in self.items.items()}
        totals = {
            "allocated": float(self.allocated_by_rank[row, rank]),
            "reserved": float(self.reserved_by_rank[row, rank]),
            "device": float(self.device_by_rank[row, rank]),
        }
        return items | totals


def estimate(
    problem: TuningProblem,
    batch: ConfigBatch,
    constants: MemoryConstants | None = None,
    software: Software = DEFAULT,
) -> MemoryEstimate:
    """Estimate the memory of every row. Rows that break a launch rule get finite, meaningless figures.

    `constants` default to the calibrated ones of the cluster's accelerator.
    """
    constants = constants or constants_for(problem.cluster.accelerator)
    degrees = Degrees.of(problem, batch)
    table = StageTable.of(problem.model, batch)
    exists = table.rank_exists()
    head = on_rank(table, table.head_rank())
    peak, waiting = logits_bytes(problem, batch, degrees, constants, software)
    items: dict[str, FloatArray] = {
        **vars(states(problem, batch, degrees, table, constants, software)),
        **_activation_items(problem, batch, degrees, table, constants, software),
        "logits": head * peak[:, None],
        "waiting_logit_gradients": head * waiting[:, None],
        **_dispatch_items(problem, batch, degrees, table, constants),
        "weight_gradient_buffers": weight_gradient_buffers(problem, batch, table, _head_matrix(problem, batch, head)),
        "workspace": np.asarray(exists * constants.workspace_bytes, dtype=np.float64),
    }
    if is_eager(problem):
        items |= _after_the_loss(items)
    # the optimizer steps when everything that comes and goes is gone: only what exceeds that raises the peak
    items["optimizer_step"] = np.maximum(items["optimizer_step"] - _changing(items), 0.0)
    items |= _outside_allocation(items, batch, table, constants)
    ordered = {name: items[name] for names in KINDS.values() for name in names}
    return MemoryEstimate(items=ordered, rank_exists=exists)


def _activation_items(
    problem: TuningProblem,
    batch: ConfigBatch,
    degrees: Degrees,
    table: StageTable,
    constants: MemoryConstants,
    software: Software,
) -> dict[str, FloatArray]:
    """Return saved activations by part, and what recomputation brings back."""
    saved = saved_bytes(problem, batch, degrees, software)
    read: FloatArray | float = 1.0
    if not software.flash_attention:
        read = total(saved_bytes(problem, batch, degrees, DEFAULT).dense, "whole") / total(saved.dense, "whole")
    flying = in_flight(batch, table.max_ranks, degrees.num_micro_batches, constants, read)
    if software.offloads_activations:
        flying = np.minimum(flying, 1.0 / batch.virtual_pipeline_parallel_size[:, None])
    kept = activations(batch, table, saved, flying, on_rank(table, table.head_rank()))
    return {**kept.by_part, "recomputed_unit": kept.working_unit}


def _dispatch_items(
    problem: TuningProblem, batch: ConfigBatch, degrees: Degrees, table: StageTable, constants: MemoryConstants
) -> dict[str, FloatArray]:
    """Return the dispatcher's memory and, as far as it is larger than what it passes on, a layer's gradients."""
    dispatch = dispatch_bytes(problem, batch, degrees, constants)
    has_experts = table.per_rank()[1] > 0
    transient = has_experts * dispatch.transient[:, None]
    gradients = layer_gradients(problem, batch, degrees, table)
    return {
        "dispatch_buffers": has_experts * dispatch.buffers[:, None],
        "dispatch_transient": transient,
        "layer_gradients": np.maximum(gradients - transient, 0.0),
    }


def _after_the_loss(items: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """Return what one layer's backward adds to the loss's peak, which is over by then."""
    excess = np.maximum(items["recomputed_unit"] + items["layer_gradients"] - items["logits"], 0.0)
    gradients = np.minimum(items["layer_gradients"], excess)
    return {"layer_gradients": gradients, "recomputed_unit": excess - gradients}


def _head_matrix(problem: TuningProblem, batch: ConfigBatch, head: FloatArray) -> FloatArray:
    tensor = batch.tensor_parallel_size
    return head * (padded_vocabulary(problem.model, tensor) * problem.model.hidden_size / tensor)[:, None]


def _outside_allocation(
    items: Mapping[str, FloatArray], batch: ConfigBatch, table: StageTable, constants: MemoryConstants
) -> dict[str, FloatArray]:
    """Return the allocator's slack, which grows with what comes and goes, and the device memory outside it."""
    changing = _changing(items)
    all_to_all = batch.is_("moe_dispatcher", "all-to-all") & (
        batch.expert_parallel_size * batch.expert_tensor_parallel_size > 1
    )
    has_experts = table.per_rank()[1] > 0
    return {
        "slack": changing * constants.slack_share,
        "context": np.asarray(table.rank_exists() * constants.context_bytes, dtype=np.float64),
        "collectives": np.asarray(has_experts * all_to_all[:, None] * constants.all_to_all_bytes, dtype=np.float64),
    }


def _changing(items: Mapping[str, FloatArray]) -> FloatArray:
    return _sum([items[name] for kind in CHANGING_KINDS for name in KINDS[kind]])


def _worst(by_rank: FloatArray) -> FloatArray:
    worst: FloatArray = by_rank.max(axis=1)
    return worst


def _sum(arrays: list[FloatArray]) -> FloatArray:
    total: FloatArray = arrays[0].copy()
    for array in arrays[1:]:
        total += array
    return total
