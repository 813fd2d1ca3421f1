"""Buffers of the expert dispatch, on ranks with MoE layers. Used by `estimate`.

All-to-all holds copies of the routed rows for a moment; DeepEP holds buffers for the whole run and what it received
for a moment. Source: deepseek-ai/DeepEP, the buffer size hints of `csrc/config.hpp`.
"""

from dataclasses import dataclass

import numpy as np

from tunewright.domain.config_batch import ConfigBatch, FloatArray, IntArray
from tunewright.domain.degrees import Degrees
from tunewright.domain.model_architecture import MixtureOfExperts
from tunewright.domain.problem import TuningProblem
from tunewright.domain.routing import token_copies
from tunewright.memory.constants import MemoryConstants
from tunewright.memory.routing import routed_rows

WORST_CASE_RECEIVE_STAGE = 2
"""Primus' sync-free stage from which DeepEP's receive tensor is sized for all tokens of all peers."""


@dataclass(frozen=True)
class DispatchBytes:
    """Bytes of a rank with MoE layers, shape (rows,): for the whole run, and for a moment in each layer."""

    buffers: FloatArray
    transient: FloatArray


def dispatch_bytes(
    problem: TuningProblem, batch: ConfigBatch, degrees: Degrees, constants: MemoryConstants
) -> DispatchBytes:
    """Return the dispatcher's memory; zero where a rank holds every expert whole."""
    experts = problem.model.experts
    if experts is None:
        return DispatchBytes(np.zeros(len(batch)), np.zeros(len(batch)))
    peers = batch.expert_parallel_size * batch.expert_tensor_parallel_size
    deepep = batch.is_("moe_dispatcher", "deepep")
    tokens = degrees.tokens_per_micro_batch / batch.tensor_parallel_size
    row_bytes = problem.model.hidden_size * np.where(batch.is_("precision", "fp32"), 4.0, 2.0)
    exchanged = constants.all_to_all_copies * routed_rows(problem, batch, tokens)
    received = _received(problem, experts, batch, tokens)
    split = peers > 1
    return DispatchBytes(
        buffers=np.where(split & deepep, _deepep_buffers(problem, peers, constants), 0.0),
        transient=np.where(split, np.where(deepep, received, exchanged) * row_bytes, 0.0),
    )


def _received(problem: TuningProblem, experts: MixtureOfExperts, batch: ConfigBatch, tokens: FloatArray) -> FloatArray:
    """Tokens that DeepEP delivers to a rank: one copy per rank that a token visits, or every peer's tokens."""
    worst = tokens * batch.expert_parallel_size * batch.expert_tensor_parallel_size
    usual = (
        tokens
        * batch.expert_tensor_parallel_size
        * token_copies(experts, batch.expert_parallel_size)
        * problem.routing_imbalance
    )
    received: FloatArray = np.where(batch.sync_free_stage >= WORST_CASE_RECEIVE_STAGE, worst, np.minimum(usual, worst))
    return received


def _deepep_buffers(problem: TuningProblem, peers: IntArray, constants: MemoryConstants) -> FloatArray:
    """Receive queues of every channel: one per peer in the node, and two per other node over the network."""
    channels = constants.deepep_compute_units // 2
    in_node = problem.cluster.gpus_per_node
    token_bytes = 2 * problem.model.hidden_size + constants.deepep_metadata_bytes
    scale_up = channels * np.minimum(peers, in_node) * constants.deepep_chunk_tokens * token_bytes
    nodes = -(-peers // in_node)
    scale_out = channels * nodes * 2 * constants.deepep_network_chunk_tokens * token_bytes * (nodes > 1)
    buffers: FloatArray = (scale_up + scale_out).astype(np.float64)
    return buffers
