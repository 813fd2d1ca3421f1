"""In how many bytes a gradient element is reduced. Read by memory (what waits) and performance (what is sent)."""

import numpy as np

from tunewright.domain.config_batch import ConfigBatch, FloatArray
from tunewright.domain.problem import TuningProblem

FLOAT32_BYTES = 4.0
_REDUCES_SHARDS_IN_FP32 = frozenset({"torchtitan", "builtin"})
"""torchtitan's `mixed_precision_reduce` is float32, and the trial program's `reduce_dtype`. Megatron-LM and Primus wrap
layers with `fully_shard` and no policy, which reduces in the type of the weights
(`megatron/core/distributed/torch_fully_sharded_data_parallel.py`)."""


def reduced_gradient_bytes(
    problem: TuningProblem, batch: ConfigBatch, main_gradient_bytes: float = FLOAT32_BYTES
) -> FloatArray:
    """Return the width of a reduced gradient, per row: the main gradient's, and FSDP2's by launcher."""
    in_weights_type = batch.is_("optimizer", "fsdp2") & ~batch.is_("precision", "fp32")
    if problem.backend in _REDUCES_SHARDS_IN_FP32:
        in_weights_type &= False
    return np.where(in_weights_type, 2.0, main_gradient_bytes)
