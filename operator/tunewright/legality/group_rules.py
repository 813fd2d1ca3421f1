"""Rules on the sizes of the parallel groups: world size, tensor and expert groups.

Source: `megatron/core/parallel_state.py`, `transformer_config.py` and `transformer/attention.py` of NVIDIA/Megatron-LM.
"""

import numpy as np

from tunewright.legality.rule import Finding, RuleContext, divisors_text


def degrees_divide_world_size(context: RuleContext) -> Finding:
    """T·C·P divides the world size."""
    batch, world = context.batch, context.problem.world_size

    def message(row: int) -> str:
        tensor, other, pipeline = (
            int(column[row])
            for column in (batch.tensor_parallel_size, batch.context_parallel_size, batch.pipeline_parallel_size)
        )
        return (
            f"tensorParallelSize {tensor} x contextParallelSize {other} x pipelineParallelSize {pipeline} = "
            f"{tensor * other * pipeline} does not divide the {world} ranks: lower one of them"
        )

    return Finding(~context.fills_world, message)


def expert_degrees_divide_world_size(context: RuleContext) -> Finding:
    """With experts, ET·E·P divides the world size, so that ET·E divides T·C·D."""
    batch, world = context.batch, context.problem.world_size
    ranks = batch.expert_tensor_parallel_size * batch.expert_parallel_size * batch.pipeline_parallel_size

    def message(row: int) -> str:
        return (
            f"expertParallelSize {batch.expert_parallel_size[row]} x expertTensorParallelSize "
            f"{batch.expert_tensor_parallel_size[row]} x pipelineParallelSize {batch.pipeline_parallel_size[row]} = "
            f"{ranks[row]} does not divide the {world} ranks: experts take their ranks from one pipeline stage"
        )

    return Finding((world % ranks != 0) & context.model.is_moe, message)


def tensor_divides_heads(context: RuleContext) -> Finding:
    """T divides the attention heads."""
    tensor, heads = context.batch.tensor_parallel_size, context.model.num_attention_heads

    def message(row: int) -> str:
        choices = divisors_text(heads, context.problem.cluster.gpus_per_node)
        return f"tensorParallelSize {tensor[row]} does not divide the {heads} attention heads: use one of {choices}"

    return Finding(heads % tensor != 0, message)


def tensor_fits_key_value_heads(context: RuleContext) -> Finding:
    """T divides the key/value heads, or they divide T (each rank then works on one, shared with others)."""
    tensor, groups = context.batch.tensor_parallel_size, context.model.num_key_value_heads
    grouped = context.model.latent_attention is None

    def message(row: int) -> str:
        return (
            f"tensorParallelSize {tensor[row]} neither divides the {groups} key/value heads nor is a multiple of them: "
            f"use one of {divisors_text(groups)} or a multiple of {groups}"
        )

    return Finding((groups % tensor != 0) & (tensor % groups != 0) & grouped, message)


def tensor_divides_key_value_heads(context: RuleContext) -> Finding:
    """T divides the key/value heads: whole heads are split over the tensor ranks."""
    tensor, groups = context.batch.tensor_parallel_size, context.model.num_key_value_heads
    grouped = context.model.latent_attention is None

    def message(row: int) -> str:
        return (
            f"tensorParallelSize {tensor[row]} does not divide the {groups} key/value heads: "
            f"use one of {divisors_text(groups)}"
        )

    return Finding((groups % tensor != 0) & grouped, message)


def tensor_divides_ffn(context: RuleContext) -> Finding:
    """T divides the width of the dense MLP."""
    tensor, width = context.batch.tensor_parallel_size, context.model.ffn_hidden_size

    def message(row: int) -> str:
        return f"tensorParallelSize {tensor[row]} does not divide the MLP width {width}: use a divisor of {width}"

    return Finding((width % tensor != 0) & (context.model.num_dense_layers > 0), message)


def tensor_divides_shared_experts(context: RuleContext) -> Finding:
    """T divides the width of the shared experts."""
    tensor = context.batch.tensor_parallel_size
    width = context.model.experts.shared_expert_ffn_hidden_size if context.model.experts else 0

    def message(row: int) -> str:
        return (
            f"tensorParallelSize {tensor[row]} does not divide the shared experts' width {width}: "
            f"use a divisor of {width}"
        )

    return Finding(width % tensor != 0, message)


def tensor_within_node(context: RuleContext) -> Finding:
    """T divides the accelerators of a node: its traffic stays on scale-up links."""
    tensor, per_node = context.batch.tensor_parallel_size, context.problem.cluster.gpus_per_node

    def message(row: int) -> str:
        return (
            f"tensorParallelSize {tensor[row]} does not divide the {per_node} accelerators of a node: "
            f"use one of {divisors_text(per_node)}"
        )

    return Finding(per_node % tensor != 0, message)


def expert_divides_experts(context: RuleContext) -> Finding:
    """E divides the routed experts."""
    expert = context.batch.expert_parallel_size
    count = context.model.experts.num_experts if context.model.experts else 0

    def message(row: int) -> str:
        return (
            f"expertParallelSize {expert[row]} does not divide the {count} experts: use one of {divisors_text(count)}"
        )

    return Finding(count % expert != 0, message)


def expert_tensor_divides_expert_ffn(context: RuleContext) -> Finding:
    """ET divides the width of an expert."""
    split = context.batch.expert_tensor_parallel_size
    width = context.model.experts.expert_ffn_hidden_size if context.model.experts else 0

    def message(row: int) -> str:
        return (
            f"expertTensorParallelSize {split[row]} does not divide the expert width {width}: use a divisor of {width}"
        )

    return Finding(width % split != 0, message)


def expert_split_needs_experts(context: RuleContext) -> Finding:
    """A dense model has E = ET = 1."""
    batch = context.batch
    split = np.maximum(batch.expert_parallel_size, batch.expert_tensor_parallel_size) > 1

    def message(row: int) -> str:
        return (
            f"expertParallelSize {batch.expert_parallel_size[row]}, expertTensorParallelSize "
            f"{batch.expert_tensor_parallel_size[row]}: {context.model.name} has no experts, set both to 1"
        )

    return Finding(split & (not context.model.is_moe), message)
