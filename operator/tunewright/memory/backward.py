"""What one layer's backward needs for a moment, besides saved tensors. Used by `estimate`.

Two things that peaks measured on real runs contain and a sum of saved tensors does not: the gradients of the layer's
own activations, and the bf16 weight gradients that autograd hands over before (or, with fused accumulation, as empty
placeholders beside) the main gradient. Megatron-LM and TransformerEngine allocate a placeholder per weight shape.
Decided on SimuMax 1.2's eight-GPU runs, whose peaks fell 2 to 5 % short without these items and are within 1 % now.
"""

import numpy as np

from tunewright.domain.config_batch import ConfigBatch, FloatArray
from tunewright.domain.degrees import Degrees
from tunewright.domain.model_architecture import ModelArchitecture
from tunewright.domain.parameters import ParameterCounts
from tunewright.domain.pipeline_layout import StageTable
from tunewright.domain.problem import TuningProblem
from tunewright.memory.logits import is_eager
from tunewright.memory.routing import routed_rows


def layer_gradients(problem: TuningProblem, batch: ConfigBatch, degrees: Degrees, table: StageTable) -> FloatArray:
    """Return the gradients of one layer's MLP activations on each rank, shape (rows, ranks).

    Output, product, its factors and input: 2·H + 3·F elements a token (2·F without a gate), for routed rows
    likewise; with T > 1 also the input gathered from the tensor group for the weight gradient.
    """
    model = problem.model
    element = np.where(batch.is_("precision", "fp32"), 4.0, 2.0)
    tensor = batch.tensor_parallel_size
    tokens = degrees.tokens_per_micro_batch / tensor
    gathered = model.hidden_size * degrees.tokens_per_micro_batch * (tensor > 1)
    dense = tokens * _row_elements(model, model.ffn_hidden_size) + gathered
    moe = np.zeros(len(batch))
    if model.experts is not None:
        width = model.experts.expert_ffn_hidden_size / batch.expert_tensor_parallel_size
        shared = tokens * _row_elements(model, model.experts.shared_expert_ffn_hidden_size) + gathered
        moe = shared + routed_rows(problem, batch, tokens) * _row_elements(model, width)
    dense_layers, moe_layers = table.per_rank()
    elements = np.maximum(dense[:, None] * (dense_layers > 0), moe[:, None] * (moe_layers > 0))
    gradients: FloatArray = elements * element[:, None]
    return gradients


def _row_elements(model: ModelArchitecture, width: FloatArray | int) -> FloatArray:
    intermediate = 3 if model.gated_mlp else 2
    return np.asarray(2.0 * model.hidden_size + intermediate * np.asarray(width))


def weight_gradient_buffers(
    problem: TuningProblem, batch: ConfigBatch, table: StageTable, head_matrix: FloatArray
) -> FloatArray:
    """Return the weight gradients of one layer and of the head before accumulation, shape (rows, ranks).

    `head_matrix` are the head's parameters by rank. Experts of a layer share one shape, hence one buffer. Eager torch
    accumulates matrix by matrix, of which the head's is the largest.
    """
    element = np.where(batch.is_("precision", "fp32"), 4.0, 2.0)[:, None]
    if is_eager(problem):
        return head_matrix * element
    counts = ParameterCounts.of(problem.model)
    dense_layers, moe_layers = table.per_rank()
    tensor = batch.tensor_parallel_size
    dense = counts.dense_layer.tensor_split / tensor
    expert = 0
    if problem.model.experts is not None:
        expert = counts.moe_layer.expert_parameters_total // problem.model.experts.num_experts
    moe = counts.moe_layer.tensor_split / tensor + expert / batch.expert_tensor_parallel_size
    layer = np.maximum(dense[:, None] * (dense_layers > 0), moe[:, None] * (moe_layers > 0))
    buffers: FloatArray = (layer + head_matrix) * element
    return buffers
