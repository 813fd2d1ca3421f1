"""How many micro batches' activations a pipeline rank holds at its peak. Used by the activation and logit formulas.

Closed forms of each schedule in units of a micro batch of the whole rank (all its chunks). Sources: Narayanan et al.
2021 (arXiv 2104.04473) for 1F1B and interleaving, Qi et al. 2024 for the zero-bubble (2401.10241) and V-shaped
(2405.15362) schedules. A micro batch whose input gradient is done, but not its weight gradient, counts
`weight_gradient_share`; less where attention keeps its scores, which no weight gradient reads. H2's scheduler fills its
limit of 2P - 1 with further forward passes, so that there the share does not matter.
"""

import numpy as np

from tunewright.domain.config_batch import ConfigBatch, FloatArray, IntArray
from tunewright.domain.training_config import PIPELINE_SCHEDULES
from tunewright.memory.constants import MemoryConstants


def in_flight(
    batch: ConfigBatch,
    max_ranks: int,
    num_micro_batches: IntArray,
    constants: MemoryConstants,
    read_by_weights: FloatArray | float = 1.0,
) -> FloatArray:
    """Return micro batches in flight, shape (rows, max_ranks), 0 where a row has no such rank.

    A schedule never holds more than the step has, so every form is capped by the number of micro batches.
    `read_by_weights` is the part of a layer's saved bytes that flash attention keeps too, per row.
    """
    first, index = _distinct(batch, read_by_weights)
    share = constants.weight_gradient_share * np.broadcast_to(read_by_weights, len(batch))[first]
    held = _uncapped(batch.take(first), max_ranks, share[:, None], constants.weight_gradient_share)[index]
    exists = np.arange(max_ranks)[None, :] < batch.pipeline_parallel_size[:, None]
    capped: FloatArray = np.minimum(held, num_micro_batches[:, None]) * exists
    return capped


def _distinct(batch: ConfigBatch, read_by_weights: FloatArray | float) -> tuple[IntArray, IntArray]:
    """Return one row of each distinct pipeline, of which there are few, and the pipeline of every row."""
    if np.ndim(read_by_weights):
        return np.arange(len(batch)), np.arange(len(batch))
    shape = batch.pipeline_parallel_size * (batch.virtual_pipeline_parallel_size.max(initial=0) + 1)
    shape = (shape + batch.virtual_pipeline_parallel_size) * len(PIPELINE_SCHEDULES)
    _, first, index = np.unique(shape + batch.pipeline_schedule, return_index=True, return_inverse=True)
    return first, index


def _uncapped(batch: ConfigBatch, max_ranks: int, share: FloatArray, refilled: float) -> FloatArray:
    """Return what each schedule would hold in an endless step.

    `share` is the part of a micro batch that W still needs, `refilled` what H2 fills it up to.
    """
    stages = batch.pipeline_parallel_size[:, None]
    rank = np.arange(max_ranks)[None, :]
    forms = {
        "1f1b": stages - rank,
        "interleaved-1f1b": _interleaved(batch, rank),
        "zero-bubble-h1": (stages - rank) + rank * share,
        "zero-bubble-h2": (2 * stages - 1 - 2 * rank) + 2 * rank * refilled,
        "zero-bubble-v": stages,
        "v-half": (stages + 2) // 2,
        "v-min": (stages + 4) // 3,
    }
    masks = [batch.is_("pipeline_schedule", name)[:, None] for name in forms]
    held: FloatArray = np.select(masks, [np.broadcast_to(form, (len(batch), max_ranks)) for form in forms.values()])
    return held


def _interleaved(batch: ConfigBatch, rank: IntArray) -> FloatArray:
    """Warm-up of 2(P−1−i) + (V−1)·P chunks and the one at work, for groups of P micro batches."""
    stages = batch.pipeline_parallel_size[:, None]
    chunks = batch.virtual_pipeline_parallel_size[:, None]
    held: FloatArray = (2 * (stages - 1 - rank) + (chunks - 1) * stages + 1) / chunks
    return held


def waiting_logit_gradients(batch: ConfigBatch, num_micro_batches: IntArray) -> IntArray:
    """Return how many earlier micro batches' logit gradients the head's delayed weight gradients pin, per row.

    H1 delays the last stage's W by P − 1 micro batches, H2 by 2P − 2; V-shaped schedules run it at once.
    """
    stages = batch.pipeline_parallel_size
    delayed = np.select(
        [batch.is_("pipeline_schedule", "zero-bubble-h1"), batch.is_("pipeline_schedule", "zero-bubble-h2")],
        [stages - 1, 2 * stages - 2],
        0,
    )
    waiting: IntArray = np.minimum(delayed, num_micro_batches - 1)
    return waiting
