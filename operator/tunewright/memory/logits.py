"""Logits and loss on the head's rank. Used by `estimate`.

v·b·S/(C·T) elements, v padded. Megatron's cross entropy peaks at 6 bytes each whether `native` or not fused, since
the fp32 softmax meets the bf16 logits and later the bf16 gradient; Transformer Engine's writes in place (2 bytes);
eager torch holds three fp32 tensors. Launch arguments ask for Transformer Engine's under Primus only: Megatron-LM
refuses it from core 0.19 on.
Zero-bubble schedules delay the head's weight gradient, which keeps the logit gradients of earlier micro batches.
"""

import numpy as np

from tunewright.domain.config_batch import ConfigBatch, FloatArray
from tunewright.domain.degrees import Degrees
from tunewright.domain.parameter_placement import padded_vocabulary
from tunewright.domain.problem import TuningProblem
from tunewright.memory.constants import MemoryConstants
from tunewright.memory.in_flight import waiting_logit_gradients
from tunewright.memory.software import DEFAULT, Software


def logits_bytes(
    problem: TuningProblem,
    batch: ConfigBatch,
    degrees: Degrees,
    constants: MemoryConstants,
    software: Software = DEFAULT,
) -> tuple[FloatArray, FloatArray]:
    """Return the peak of one micro batch's loss and the gradients that wait, each of shape (rows,).

    Prediction depths compute their losses one after the other, but the gradients of all wait for backward.
    """
    tensor = batch.tensor_parallel_size
    elements = padded_vocabulary(problem.model, tensor) / tensor * degrees.tokens_per_micro_batch
    element_bytes = np.where(batch.is_("precision", "fp32"), 4.0, 2.0)
    waiting = waiting_logit_gradients(batch, degrees.num_micro_batches)
    passes = 1 + problem.model.num_multi_token_prediction_layers
    peak = elements * (_peak_bytes(problem, batch, constants, software) + (passes - 1) * element_bytes)
    return peak, elements * element_bytes * waiting * passes


def is_eager(problem: TuningProblem) -> bool:
    """Whether torch computes loss and layers, so that the loss's tensors are gone when the layers run backward."""
    return problem.implementation == "torch" or problem.backend == "torchtitan"


def _peak_bytes(
    problem: TuningProblem, batch: ConfigBatch, constants: MemoryConstants, software: Software
) -> FloatArray:
    """Bytes per logit at the worst moment of the loss, per row."""
    fp32 = batch.is_("precision", "fp32")
    if is_eager(problem):
        parallel = (problem.backend == "torchtitan") & (batch.tensor_parallel_size > 1)
        return np.where(parallel, constants.eager_split_logit_bytes, constants.eager_logit_bytes)
    fused = np.where(fp32, 2 * constants.fused_logit_bytes, constants.fused_logit_bytes)
    unfused = np.where(fp32, constants.unfused_fp32_logit_bytes, constants.unfused_logit_bytes)
    in_place = problem.backend == "primus" if software.in_place_loss is None else software.in_place_loss
    return np.where((batch.cross_entropy_fusion == 1) & in_place, fused, unfused)
