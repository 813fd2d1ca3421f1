"""Seconds of the collectives of one layer and micro batch: tensor, expert and context parallel. Called by `stages`.

Volumes: Korthikanti et al. 2022 (arXiv 2205.05198) for tensor with sequence parallelism, Megatron-LM's MoE layer and
token dispatcher, deepseek-ai/DeepEP for its dispatch. bf16 on the wire; fp32 where the row computes in fp32.
"""

from dataclasses import dataclass, replace

import numpy as np

from tunewright.domain.config_batch import ConfigBatch, FloatArray
from tunewright.domain.model_architecture import MixtureOfExperts
from tunewright.domain.operation_checkpointing import recomputes_operations
from tunewright.domain.problem import TuningProblem
from tunewright.domain.routing import token_copies
from tunewright.performance.collectives import Collectives
from tunewright.performance.modules import Shapes
from tunewright.performance.placement import Group, Groups

_DISPATCH_AND_COMBINE = 2
_COUNT_BYTES = 8


@dataclass(frozen=True, eq=False)
class LayerCommunication:
    """Seconds per layer and micro batch, per row. `*_again` is what recomputation repeats in the backward pass."""

    tensor_forward: FloatArray
    tensor_backward: FloatArray
    tensor_again: FloatArray
    context_forward: FloatArray
    context_backward: FloatArray
    context_again: FloatArray
    expert_forward: FloatArray
    expert_backward: FloatArray
    expert_again: FloatArray


def dense_layer_communication(
    problem: TuningProblem,
    batch: ConfigBatch,
    groups: Groups,
    collectives: Collectives,
    *,
    sequence_parallel: bool = True,
) -> LayerCommunication:
    """Return the collectives of a layer with a dense MLP."""
    shapes, element = Shapes.of(problem, batch), _element_bytes(batch)
    attention = _attention_half(problem, shapes, groups.tensor, collectives, element)
    mlp = _tensor_half(problem, shapes, groups.tensor, collectives, element)
    if not sequence_parallel:
        attention, mlp = _without_second_gather(attention), _without_second_gather(mlp)
    full = batch.is_("recompute_granularity", "full")
    again = full * (attention.forward + mlp.forward) + batch.recomputes("mlp") * mlp.forward
    context = _context(problem, batch, groups.context, collectives)
    zero = np.zeros(len(batch))
    return LayerCommunication(
        tensor_forward=attention.forward + mlp.forward,
        tensor_backward=attention.backward + mlp.backward,
        tensor_again=again,
        context_forward=context,
        context_backward=2.0 * context,
        context_again=(full | batch.recomputes("core_attn")) * context,
        expert_forward=zero,
        expert_backward=zero,
        expert_again=zero,
    )


def moe_layer_communication(
    problem: TuningProblem,
    batch: ConfigBatch,
    groups: Groups,
    collectives: Collectives,
    *,
    sequence_parallel: bool = True,
) -> LayerCommunication:
    """Return the collectives of a MoE layer: half of a dense layer's, shared experts, dispatch and combine."""
    dense = dense_layer_communication(problem, batch, groups, collectives)
    experts = problem.model.experts
    if experts is None:
        return dense
    shapes, element = Shapes.of(problem, batch), _element_bytes(batch)
    attention = _attention_half(problem, shapes, groups.tensor, collectives, element)
    shared = _tensor_half(problem, shapes, groups.tensor, collectives, element)
    shared = shared.times(1.0 if experts.shared_expert_ffn_hidden_size else 0.0)
    routed = _expert_tensor(problem, batch, shapes, groups.expert_tensor, collectives)
    full, whole = batch.is_("recompute_granularity", "full"), batch.recomputes("moe")
    mlp = shared.forward + routed.forward
    dispatch = _dispatch(problem, batch, groups.expert, collectives)
    counted = dispatch + _token_counts(problem, experts, groups.expert, collectives)
    return replace(
        dense,
        tensor_forward=attention.forward + mlp,
        tensor_backward=attention.backward + shared.backward + routed.backward,
        tensor_again=full * (attention.forward + mlp)
        + whole * mlp
        + (batch.recomputes("shared_experts") & ~whole) * shared.forward,
        expert_forward=counted,
        expert_backward=dispatch,
        expert_again=(full | whole | recomputes_operations(problem, batch)) * counted,
    )


@dataclass(frozen=True, eq=False)
class _Half:
    forward: FloatArray
    backward: FloatArray

    def times(self, factor: float) -> "_Half":
        return _Half(self.forward * factor, self.backward * factor)


def _tensor_half(
    problem: TuningProblem, shapes: Shapes, group: Group, collectives: Collectives, element: FloatArray
) -> _Half:
    """One column- and one row-parallel linear: all-gather and reduce-scatter; backward gathers the input again."""
    size_bytes = shapes.tokens * problem.model.hidden_size * element
    gather, scatter = collectives.all_gather(group, size_bytes), collectives.reduce_scatter(group, size_bytes)
    half = _Half(gather + scatter, 2.0 * gather + scatter)
    return _without_second_gather(half) if _keeps_gathered(problem) else half


def _keeps_gathered(problem: TuningProblem) -> bool:
    """Megatron gathers a linear's input again for the weight gradient; torch's autograd has saved it gathered."""
    return problem.implementation == "torch"


def _without_second_gather(half: _Half) -> _Half:
    """Unsplit inputs need not be gathered again for the weight gradient: backward repeats forward's all-reduce."""
    return _Half(half.forward, half.forward)


def _attention_half(
    problem: TuningProblem, shapes: Shapes, group: Group, collectives: Collectives, element: FloatArray
) -> _Half:
    """As `_tensor_half`; MLA gathers its compressed factors instead of the hidden state.

    With fewer key/value heads than tensor ranks one more all-gather collects Megatron's QKV output; torch programs hold
    such a head on several ranks.
    """
    model = problem.model
    width, latent = model.hidden_size, model.latent_attention
    if latent is not None:
        width = (latent.query_rank or model.hidden_size) + latent.key_value_rank + latent.rotated_head_dim
    gather = collectives.all_gather(group, shapes.tokens * width * element)
    scatter = collectives.reduce_scatter(group, shapes.tokens * model.hidden_size * element)
    if _keeps_gathered(problem):
        return _Half(gather + scatter, gather + scatter)
    extra = np.zeros_like(gather)
    if latent is None:
        output = (model.num_attention_heads + 2 * model.num_key_value_heads) * model.head_dim
        collected = collectives.all_gather(group, shapes.tokens * output * element)
        extra = np.where(shapes.tensor > model.num_key_value_heads, collected, 0.0)
    return _Half(gather + scatter + extra, 2.0 * gather + scatter + extra)


def _expert_tensor(
    problem: TuningProblem, batch: ConfigBatch, shapes: Shapes, group: Group, collectives: Collectives
) -> _Half:
    """Routed rows gathered over the expert tensor group and reduced back."""
    experts = problem.model.experts
    copies = experts.experts_per_token if experts is not None else 0
    rows = shapes.token_share * copies * batch.expert_tensor_parallel_size * problem.routing_imbalance
    size = rows * problem.model.hidden_size * _element_bytes(batch)
    gather, scatter = collectives.all_gather(group, size), collectives.reduce_scatter(group, size)
    return _Half(gather + scatter, gather + scatter)


def _dispatch(problem: TuningProblem, batch: ConfigBatch, group: Group, collectives: Collectives) -> FloatArray:
    """Dispatch and combine of a MoE layer, forward (the same backward)."""
    experts = problem.model.experts
    if experts is None:
        return np.zeros(len(batch))
    token_bytes = (
        Shapes.of(problem, batch).token_share
        * problem.model.hidden_size
        * _element_bytes(batch)
        * problem.routing_imbalance
    )
    plain = collectives.all_to_all(group, token_bytes * experts.experts_per_token)
    once = _deepep(experts, group, token_bytes, collectives)
    return _DISPATCH_AND_COMBINE * np.where(batch.is_("moe_dispatcher", "deepep"), once, plain)


def _token_counts(
    problem: TuningProblem, experts: MixtureOfExperts, group: Group, collectives: Collectives
) -> FloatArray:
    """The message with which torch programs tell each other how many tokens come; Megatron's is a wait of the host."""
    told = np.full(np.shape(group.size), float(_COUNT_BYTES * experts.num_experts))
    return collectives.all_to_all(group, told) * float(problem.implementation == "torch")


def _deepep(experts: MixtureOfExperts, group: Group, token_bytes: FloatArray, collectives: Collectives) -> FloatArray:
    """A token goes once to each domain that needs it, and from there once to each rank."""
    ranks = token_copies(experts, group.size)
    domains = token_copies(experts, group.outside)
    inside = token_bytes * ranks * (group.inside - 1) / group.inside
    outside = token_bytes * domains * (group.outside - 1) / group.outside
    return collectives.exchange(group, inside, outside)


def _context(problem: TuningProblem, batch: ConfigBatch, group: Group, collectives: Collectives) -> FloatArray:
    """K and V around the ring: C−1 messages of one rank's slice. MLA sends all heads of its up-projected K and V."""
    model, latent = problem.model, problem.model.latent_attention
    width = 2 * model.num_key_value_heads * model.head_dim
    if latent is not None:
        head = latent.unrotated_head_dim + latent.rotated_head_dim + latent.value_head_dim
        width = model.num_attention_heads * head
    shapes = Shapes.of(problem, batch)
    message = shapes.tokens * width / shapes.tensor * _element_bytes(batch)
    # A step of the ring is as slow as its slowest link.
    crosses = group.outside > 1
    pair = Group(size=np.minimum(group.size, 2), inside=np.where(crosses, 1, np.minimum(group.size, 2)))
    return (group.size - 1) * collectives.send_receive(pair, message)


def _element_bytes(batch: ConfigBatch) -> FloatArray:
    return np.where(batch.is_("precision", "fp32"), 4.0, 2.0)
