"""Seconds per micro batch of each kind of layer on one rank: what a projection starts from. Collectives come apart,
unless a profile could not time a layer without them (`included_groups`).

Made by `compute` (analytic) or by `profiled` (from a trial); read by `stages` and `step`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tunewright.domain.config_batch import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class LayerTimes:
    """One entry a row. A layer's `backward_input` contains its `recompute`, the forward part that runs again.

    Under `full` recomputation by blocks these are the times of a recomputed layer; `stages` takes the recomputation
    off the others.
    """

    dense_forward: FloatArray
    dense_backward_input: FloatArray
    dense_backward_weight: FloatArray
    dense_recompute: FloatArray
    dense_core_forward: FloatArray
    """Of `dense_forward`, the attention core: what a context ring hides behind. The same in a MoE layer."""
    moe_forward: FloatArray
    moe_backward_input: FloatArray
    moe_backward_weight: FloatArray
    moe_recompute: FloatArray
    embedding_forward: FloatArray
    embedding_backward_input: FloatArray
    embedding_backward_weight: FloatArray
    head_forward: FloatArray
    head_backward_input: FloatArray
    head_backward_weight: FloatArray
    dense_wait_forward: FloatArray
    """Of `dense_forward`, what the device waits for the host to launch kernels; collectives can hide there."""
    dense_wait_backward: FloatArray
    moe_wait_forward: FloatArray
    moe_wait_backward: FloatArray
    optimizer_seconds_per_parameter: FloatArray
    """Of one parameter that this rank updates."""
    contention: float = 1.0
    """How many times longer everything takes because ranks share cores; 1 where each has a device of its own."""
    included_groups: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By kind of layer, the groups whose collectives are part of its times: they must not be added again."""

    def take(self, rows: IntArray) -> "LayerTimes":
        """Select rows by index."""
        taken: dict[str, Any] = {
            name: value[rows] for name, value in vars(self).items() if isinstance(value, np.ndarray)
        }
        return replace(self, **taken)
