"""Which rules hold for which backend: lists to be read. Used by the verdicts and by the generated rule catalogue.

Primus runs 1f1b and interleaved schedules in Megatron's own scheduler (overlap allowed), and zero-bubble and V
schedules in its own, so the micro-batch rule of interleaved is Megatron's. Experts take their ranks from the T·C·D
ranks of one stage (MoE parallel folding): E is no extra factor of the world size.
"""

from collections.abc import Mapping

from tunewright.domain.problem import Backend
from tunewright.legality import (
    builtin_rules,
    expert_rules,
    group_rules,
    pipeline_rules,
    precision_rules,
    sequence_rules,
    torchtitan_rules,
    training_rules,
)
from tunewright.legality.rule import Rule, rule
from tunewright.trial_protocol.report import Runner

_EVERYWHERE: tuple[Rule, ...] = (
    rule(group_rules.degrees_divide_world_size),
    rule(group_rules.expert_degrees_divide_world_size),
    rule(group_rules.tensor_divides_heads),
    rule(group_rules.tensor_divides_ffn),
    rule(group_rules.tensor_divides_shared_experts),
    rule(group_rules.tensor_within_node),
    rule(group_rules.expert_divides_experts),
    rule(group_rules.expert_tensor_divides_expert_ffn),
    rule(group_rules.expert_split_needs_experts),
    rule(expert_rules.expert_bias_needs_whole_experts),
    rule(pipeline_rules.layout_fits_layers),
    rule(pipeline_rules.schedule_fixes_virtual_pipeline),
    rule(pipeline_rules.schedule_needs_pipeline),
    rule(pipeline_rules.batch_is_divisible),
    rule(sequence_rules.sequence_parallel_divides_slice),
    rule(sequence_rules.sequence_fits_position_table),
    rule(training_rules.zero_bubble_excludes_recompute),
    rule(training_rules.full_recompute_fits_chunk),
    rule(precision_rules.precision_is_in_device),
    rule(precision_rules.fp8_widths_are_whole_blocks),
    rule(precision_rules.fp8_rows_are_whole_blocks),
)

_MODULES: tuple[Rule, ...] = (
    rule(training_rules.selective_recompute_names_modules),
    rule(training_rules.recompute_modules_exist),
)

_SPLIT_SEQUENCES: tuple[Rule, ...] = (
    rule(sequence_rules.context_divides_sequence),
    rule(sequence_rules.context_needs_full_attention),
    rule(sequence_rules.context_excludes_attention_sinks),
)

_DEEPEP: tuple[Rule, ...] = (
    rule(expert_rules.deepep_needs_experts),
    rule(expert_rules.deepep_needs_expert_group),
    rule(expert_rules.deepep_group_size_is_supported),
)

_MEGATRON_CORE: tuple[Rule, ...] = (
    *_EVERYWHERE,
    *_MODULES,
    *_SPLIT_SEQUENCES,
    *_DEEPEP,
    rule(group_rules.tensor_fits_key_value_heads),
    rule(pipeline_rules.inner_stages_hold_layers),
    rule(pipeline_rules.interleaving_needs_whole_groups),
    rule(training_rules.gather_overlap_needs_distributed_optimizer),
    rule(training_rules.gather_overlap_needs_reduce_overlap),
    rule(training_rules.fsdp2_needs_one_stage),
    rule(training_rules.fsdp2_needs_whole_expert_layers),
    rule(training_rules.fsdp2_needs_untied_embeddings),
)

_TORCH_PIPELINE: tuple[Rule, ...] = (
    rule(group_rules.tensor_divides_key_value_heads),
    rule(pipeline_rules.every_stage_holds_layers),
    rule(pipeline_rules.schedule_is_in_torch),
    rule(pipeline_rules.torch_1f1b_fills_pipeline),
    rule(pipeline_rules.torch_interleaving_needs_whole_rounds),
    rule(expert_rules.sync_free_is_available),
)

_BUILTIN_RUNNER: tuple[Rule, ...] = (
    rule(group_rules.tensor_fits_key_value_heads),
    rule(pipeline_rules.every_stage_holds_layers),
    rule(pipeline_rules.torch_1f1b_fills_pipeline),
    rule(pipeline_rules.torch_interleaving_needs_whole_rounds),
    rule(expert_rules.sync_free_is_available),
    rule(expert_rules.deepep_is_available),
    rule(training_rules.fsdp2_needs_one_stage),
    rule(training_rules.fsdp2_needs_whole_expert_layers),
    rule(builtin_rules.precision_is_in_builtin_runner),
    rule(builtin_rules.fsdp2_needs_whole_experts),
    rule(builtin_rules.split_query_key_norm_is_rms),
    rule(builtin_rules.attention_sinks_are_available),
    rule(builtin_rules.prediction_layers_are_available),
)
"""What this project's torch program lacks, whichever backend's launch rules a run follows."""

RULES: Mapping[Backend, tuple[Rule, ...]] = {
    "primus": (
        *_MEGATRON_CORE,
        rule(pipeline_rules.zero_bubble_v_fills_pipeline),
        rule(training_rules.primus_scheduler_excludes_overlap),
        rule(expert_rules.sync_free_needs_experts),
        rule(expert_rules.sync_free_uses_deepep),
        rule(expert_rules.sync_free_needs_whole_experts),
    ),
    "megatron": (
        *_MEGATRON_CORE,
        rule(pipeline_rules.schedule_is_in_megatron),
        rule(expert_rules.sync_free_is_available),
    ),
    "torchtitan": (
        *_EVERYWHERE,
        *_SPLIT_SEQUENCES,
        *_DEEPEP,
        *_TORCH_PIPELINE,
        rule(expert_rules.expert_tensor_is_one_or_tensor),
        rule(torchtitan_rules.weights_are_sharded_or_replicated),
        rule(torchtitan_rules.selective_recompute_is_by_operation),
        rule(torchtitan_rules.full_recompute_is_by_layer),
    ),
    "builtin": (
        *_EVERYWHERE,
        *_MODULES,
        *_SPLIT_SEQUENCES,
        *_BUILTIN_RUNNER,
    ),
}

RUNNER_RULES: Mapping[Runner, tuple[Rule, ...]] = {"builtin": _BUILTIN_RUNNER, "primus": ()}
"""What a runner of trials asks beyond the launch rules. Primus runs what its rules allow."""

ADVICE: tuple[Rule, ...] = (rule(pipeline_rules.pipeline_is_filled),)
"""What launches but is rarely wanted."""


def rules_for(backend: Backend) -> tuple[Rule, ...]:
    """Return the rules that `backend` has, in the order in which people read them."""
    return RULES[backend]
