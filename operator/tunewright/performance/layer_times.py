"""Seconds per micro batch of each kind of layer on one rank, without collectives: what a projection starts from.

Made by `compute` (analytic) or by `profiled` (from a trial); read by `stages` and `step`.
"""

from dataclasses import dataclass, fields

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

    def take(self, rows: IntArray) -> "LayerTimes":
        """Select rows by index."""
        return LayerTimes(**{field.name: getattr(self, field.name)[rows] for field in fields(self)})
