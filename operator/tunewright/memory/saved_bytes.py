"""What one layer keeps for the backward pass, by part: the value that both implementations' tables return.

Filled by `activations_transformer_engine` and `activations_torch`, read by `activations`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tunewright.domain.config_batch import BoolArray, ConfigBatch, FloatArray

PARTS = ("attention", "mlp", "router", "shared_experts", "experts")
"""Names of the parts of a layer; a dense layer has the first two, an MoE layer all but the second."""


@dataclass(frozen=True)
class PartBytes:
    """Bytes of one part for one layer and micro batch, each of shape (rows,).

    `kept` is alive from forward to backward; `dropped` is what `selective` recomputation frees and brings back for
    one layer at a time. Without recomputation the part keeps `kept + dropped`.
    """

    kept: FloatArray
    dropped: FloatArray

    @property
    def whole(self) -> FloatArray:
        """Everything that the part saves when nothing is recomputed."""
        return self.kept + self.dropped


LayerBytes = Mapping[str, PartBytes]


@dataclass(frozen=True)
class SavedBytes:
    """Per part of a dense layer, of an MoE layer, and of the model's head (final norm and output layer)."""

    dense: LayerBytes
    moe: LayerBytes
    head: FloatArray
    layer_input: FloatArray
    """What a recomputed unit keeps: its input, shape (rows,)."""


def total(layer: LayerBytes, field: str) -> FloatArray:
    """Sum `field` (kept, dropped or whole) over the parts of a layer; 0 for a layer that the model lacks."""
    parts = [getattr(part, field) for part in layer.values()]
    return np.asarray(sum(parts), dtype=np.float64)


def selects(batch: ConfigBatch, module: str) -> BoolArray:
    """Return where `module` is recomputed selectively."""
    chosen: BoolArray = batch.is_("recompute_granularity", "selective") & batch.recomputes(module)
    return chosen
