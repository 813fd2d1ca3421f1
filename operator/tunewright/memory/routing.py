"""How many rows the experts of one rank work on. Used by the activation and communication formulas."""

import numpy as np

from tunewright.domain.config_batch import ConfigBatch, FloatArray
from tunewright.domain.problem import TuningProblem

WORST_CASE_STAGE = 3
"""Primus' sync-free stage from which the permuted rows are sized for every token of every peer."""


def routed_rows(problem: TuningProblem, batch: ConfigBatch, tokens: FloatArray) -> FloatArray:
    """Return token copies that a rank's experts process, from `tokens` per rank after the tensor split.

    Balanced routing gives k rows a token; `routing_imbalance` scales that. With ET > 1 the rows of ET ranks are
    gathered. Sync-free stage 3 allocates for the worst case: all ET·E·tokens, k times each.
    """
    experts = problem.model.experts
    if experts is None:
        return np.zeros(len(batch))
    copies = tokens * experts.experts_per_token
    split = batch.expert_tensor_parallel_size
    usual = copies * problem.routing_imbalance * split
    worst = copies * split * batch.expert_parallel_size
    rows: FloatArray = np.where(batch.sync_free_stage >= WORST_CASE_STAGE, worst, np.minimum(usual, worst))
    return rows
