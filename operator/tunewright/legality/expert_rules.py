"""Rules on expert computation: biases, the token dispatcher and Primus's sync-free stages.

Source: `transformer_config.py` of NVIDIA/Megatron-LM; deepseek-ai/DeepEP, `csrc/legacy` for the group sizes;
AMD-AGI/Primus, `docs` on sync-free MoE.
"""

from tunewright.domain.config_batch import among
from tunewright.legality.rule import Finding, RuleContext

DEEPEP_GROUP_SIZES = (2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 144, 160)
"""Rank counts for which DeepEP's legacy `Buffer` has kernels and tuned configurations."""


def expert_bias_needs_whole_experts(context: RuleContext) -> Finding:
    """Experts with bias are not split over a tensor group: ET = 1."""
    split = context.batch.expert_tensor_parallel_size
    biased = context.model.is_moe and context.model.mlp_bias

    def message(row: int) -> str:
        return f"expertTensorParallelSize {split[row]}: the experts of {context.model.name} have biases, set it to 1"

    return Finding((split > 1) & biased, message)


def expert_tensor_is_one_or_tensor(context: RuleContext) -> Finding:
    """ET is 1 or T, the two that torchtitan has."""
    split, tensor = context.batch.expert_tensor_parallel_size, context.batch.tensor_parallel_size

    def message(row: int) -> str:
        return f"expertTensorParallelSize {split[row]}: torchtitan takes 1 or tensorParallelSize ({tensor[row]})"

    return Finding((split > 1) & (split != tensor), message)


def deepep_is_available(context: RuleContext) -> Finding:
    """The dispatcher is one that the backend has."""
    deepep = context.batch.is_("moe_dispatcher", "deepep")

    def message(row: int) -> str:
        return f"moeDispatcher deepep: backend {context.problem.backend} does not have it, use all-to-all"

    return Finding(deepep, message)


def deepep_needs_experts(context: RuleContext) -> Finding:
    """DeepEP is for models with experts."""
    deepep = context.batch.is_("moe_dispatcher", "deepep")

    def message(row: int) -> str:
        return f"moeDispatcher deepep: {context.model.name} has no experts, use all-to-all"

    return Finding(deepep & (not context.model.is_moe), message)


def deepep_needs_expert_group(context: RuleContext) -> Finding:
    """DeepEP needs more than one rank to dispatch to: ET·E > 1."""
    group = context.batch.expert_parallel_size * context.batch.expert_tensor_parallel_size
    deepep = context.batch.is_("moe_dispatcher", "deepep") & context.model.is_moe

    def message(row: int) -> str:
        return "moeDispatcher deepep: expertParallelSize 1 leaves nobody to send to, raise it or use all-to-all"

    return Finding(deepep & (group == 1), message)


def deepep_group_size_is_supported(context: RuleContext) -> Finding:
    """DeepEP has kernels for ET·E ranks."""
    group = context.batch.expert_parallel_size * context.batch.expert_tensor_parallel_size
    deepep = context.batch.is_("moe_dispatcher", "deepep")

    def message(row: int) -> str:
        sizes = ", ".join(map(str, DEEPEP_GROUP_SIZES))
        return f"moeDispatcher deepep: has no kernels for {group[row]} expert ranks, only for {sizes}"

    return Finding(deepep & (group > 1) & ~among(group, DEEPEP_GROUP_SIZES), message)


def sync_free_is_available(context: RuleContext) -> Finding:
    """Sync-free stages are Primus's own."""
    stage = context.batch.sync_free_stage

    def message(row: int) -> str:
        return f"syncFreeStage {stage[row]}: backend {context.problem.backend} does not have it, set it to 0"

    return Finding(stage > 0, message)


def sync_free_needs_experts(context: RuleContext) -> Finding:
    """Sync-free stages are for models with experts."""
    stage = context.batch.sync_free_stage

    def message(row: int) -> str:
        return f"syncFreeStage {stage[row]}: {context.model.name} has no experts, set it to 0"

    return Finding((stage > 0) & (not context.model.is_moe), message)


def sync_free_uses_deepep(context: RuleContext) -> Finding:
    """Sync-free stages 2 and 3 switch DeepEP on, so the dispatcher says so."""
    stage = context.batch.sync_free_stage
    deepep = context.batch.is_("moe_dispatcher", "deepep")

    def message(row: int) -> str:
        return f"syncFreeStage {stage[row]}: switches DeepEP on, set moeDispatcher to deepep or the stage to 0 or 1"

    return Finding((stage > 1) & ~deepep & context.model.is_moe, message)


def sync_free_needs_whole_experts(context: RuleContext) -> Finding:
    """Sync-free stages 2 and 3 use the grouped GEMM of Primus-Turbo, which needs ET = 1."""
    stage, split = context.batch.sync_free_stage, context.batch.expert_tensor_parallel_size

    def message(row: int) -> str:
        return (
            f"syncFreeStage {stage[row]}: its grouped GEMM needs expertTensorParallelSize 1, not {split[row]}; "
            "or set the stage to 0 or 1"
        )

    return Finding((stage > 1) & (split > 1) & context.model.is_moe, message)
