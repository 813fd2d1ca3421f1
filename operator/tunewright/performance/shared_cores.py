"""Pipelines whose ranks share cores: a rank that waits leaves its core to the others. Called by `step_parts`.

Times of a profile are those of ranks that all work at once, each `contention` times slower than alone. In a pipeline's
bubble fewer ranks work, and faster. A step is then bound by whichever is longer: the schedule at the speed of ranks
that have a core each, or all work spread over the cores (the two lower bounds of list scheduling, Graham 1969).
"""

import numpy as np

from tunewright.domain.config_batch import FloatArray


def shared_pipeline_seconds(pipeline: FloatArray, work: FloatArray, contention: float) -> FloatArray:
    """Return the pipeline's seconds per row; `work` is every rank's per step, (rows, ranks), both at full contention.

    Ranks over cores times the work of one without contention is the mean of the ranks' contended work.
    """
    if contention <= 1.0:
        return pipeline
    spread: FloatArray = work.mean(axis=1)
    return np.maximum(pipeline / contention, spread)
