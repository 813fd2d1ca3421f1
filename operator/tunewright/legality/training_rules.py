"""Rules on recomputation, optimizer sharding and overlap switches.

Source: `megatron/training/arguments.py` and `transformer_config.py` of NVIDIA/Megatron-LM; AMD-AGI/Primus,
`primus/core/projection/config_validation.py` and its pipeline scheduler.
"""

from tunewright.domain.config_batch import module_bit
from tunewright.domain.model_architecture import ModelArchitecture
from tunewright.domain.training_config import RECOMPUTE_MODULES, ZERO_BUBBLE_SCHEDULES
from tunewright.legality.rule import Finding, RuleContext


def zero_bubble_excludes_recompute(context: RuleContext) -> Finding:
    """Schedules that split backward into input and weight gradient do not go with recomputation."""
    batch = context.batch
    split = batch.is_("pipeline_schedule", *ZERO_BUBBLE_SCHEDULES)

    def message(row: int) -> str:
        granularity = context.name_of("recompute_granularity", row)
        schedule = context.name_of("pipeline_schedule", row)
        return (
            f"recomputeGranularity {granularity}: schedule {schedule} splits the "
            " backward pass, set it to none or use 1f1b or interleaved-1f1b"
        )

    return Finding(split & ~batch.is_("recompute_granularity", "none"), message)


def selective_recompute_names_modules(context: RuleContext) -> Finding:
    """Selective recomputation names at least one module."""
    batch = context.batch
    empty = batch.columns["recompute_modules"] == 0

    def message(row: int) -> str:
        choices = ", ".join(recomputable_modules(context.model))
        return f"recomputeModules (none): selective recomputation needs some of {choices}"

    return Finding(batch.is_("recompute_granularity", "selective") & empty, message)


def recompute_modules_exist(context: RuleContext) -> Finding:
    """The recomputed modules exist in this model."""
    batch = context.batch
    known = recomputable_modules(context.model)
    foreign = sum(module_bit(module) for module in RECOMPUTE_MODULES if module not in known)

    def message(row: int) -> str:
        missing = ", ".join(module for module in batch.config(row).recompute_modules if module not in known)
        return f"recomputeModules {missing}: {context.model.name} has only {', '.join(known)}; leave it out"

    return Finding((batch.columns["recompute_modules"] & foreign) != 0, message)


def full_recompute_fits_chunk(context: RuleContext) -> Finding:
    """Full recomputation counts no more layers than a model chunk has."""
    batch, largest = context.batch, context.largest_chunk

    def message(row: int) -> str:
        return (
            f"recomputeNumLayers {batch.recompute_num_layers[row]}: a model chunk has {largest[row]} layers, lower it"
        )

    full = batch.is_("recompute_granularity", "full") & (largest > 0)
    return Finding(full & (batch.recompute_num_layers > largest), message)


def primus_scheduler_excludes_overlap(context: RuleContext) -> Finding:
    """Primus runs zero-bubble and V schedules in its own scheduler, which needs both overlap switches off."""
    batch = context.batch
    overlapped = (batch.overlap_grad_reduce | batch.overlap_param_gather) != 0

    def message(row: int) -> str:
        reduce, gather = bool(batch.overlap_grad_reduce[row]), bool(batch.overlap_param_gather[row])
        return (
            f"overlapGradReduce {reduce}, overlapParamGather {gather}: "
            f"schedule {context.name_of('pipeline_schedule', row)} runs in Primus's own scheduler, set both to false"
        )

    return Finding(batch.is_("pipeline_schedule", *ZERO_BUBBLE_SCHEDULES) & overlapped, message)


def gather_overlap_needs_distributed_optimizer(context: RuleContext) -> Finding:
    """Overlapping the parameter gather needs the distributed optimizer."""
    batch = context.batch

    def message(row: int) -> str:
        return (
            f"overlapParamGather true: needs the distributed optimizer, not {context.name_of('optimizer', row)}; "
            "set it to false"
        )

    return Finding((batch.overlap_param_gather != 0) & ~batch.is_("optimizer", "distributed"), message)


def gather_overlap_needs_reduce_overlap(context: RuleContext) -> Finding:
    """Overlapping the parameter gather needs the overlapped gradient reduction."""
    batch = context.batch

    def message(row: int) -> str:
        return "overlapParamGather true: needs overlapGradReduce too, set both or neither"

    return Finding((batch.overlap_param_gather != 0) & (batch.overlap_grad_reduce == 0), message)


def fsdp2_needs_one_stage(context: RuleContext) -> Finding:
    """FSDP2 needs P = 1."""
    batch = context.batch

    def message(row: int) -> str:
        return (
            f"optimizer fsdp2: needs pipelineParallelSize 1, not {batch.pipeline_parallel_size[row]}; use distributed"
        )

    return Finding(batch.is_("optimizer", "fsdp2") & (batch.pipeline_parallel_size > 1), message)


def fsdp2_needs_whole_expert_layers(context: RuleContext) -> Finding:
    """FSDP2 needs E = 1."""
    batch = context.batch

    def message(row: int) -> str:
        return f"optimizer fsdp2: needs expertParallelSize 1, not {batch.expert_parallel_size[row]}; use distributed"

    return Finding(batch.is_("optimizer", "fsdp2") & (batch.expert_parallel_size > 1), message)


def fsdp2_needs_untied_embeddings(context: RuleContext) -> Finding:
    """Megatron's FSDP2 needs an output layer of its own."""

    def message(row: int) -> str:
        return f"optimizer fsdp2: {context.model.name} ties its embeddings; use distributed"

    return Finding(context.batch.is_("optimizer", "fsdp2") & context.model.tied_embeddings, message)


def recomputable_modules(model: ModelArchitecture) -> tuple[str, ...]:
    """Return the modules that selective recomputation can name in this model."""
    present = {
        "core_attn": True,
        "layernorm": True,
        "mlp": model.num_dense_layers > 0,
        "moe": model.num_moe_layers > 0,
        "moe_act": model.num_moe_layers > 0,
        "shared_experts": model.experts is not None and model.experts.shared_expert_ffn_hidden_size > 0,
        "mla_up_proj": model.latent_attention is not None,
    }
    return tuple(module for module in RECOMPUTE_MODULES if present[module])
