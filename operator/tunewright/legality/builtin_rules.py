"""What this project's own trial runner does not compute, known here before a launch instead of as a failed trial."""

from tunewright.domain.training_config import V_SHAPED_SCHEDULES
from tunewright.legality.rule import Finding, RuleContext

_PRECISIONS = ("bf16", "fp32")


def precision_is_in_builtin_runner(context: RuleContext) -> Finding:
    """The runner computes in bf16 or fp32."""

    def message(row: int) -> str:
        precision = context.name_of("precision", row)
        return f"precision {precision}: backend builtin computes in {' or '.join(_PRECISIONS)}; use one of them"

    return Finding(~context.batch.is_("precision", *_PRECISIONS), message)


def fsdp2_is_available(context: RuleContext) -> Finding:
    """The optimizer is distributed or replicated."""

    def message(row: int) -> str:
        return "optimizer fsdp2: backend builtin does not have it, use distributed or replicated"

    return Finding(context.batch.is_("optimizer", "fsdp2"), message)


def tied_embeddings_share_a_rank(context: RuleContext) -> Finding:
    """A tied head sits on the rank of its embedding: P = 1 or a V-shaped schedule."""
    batch = context.batch
    apart = (batch.pipeline_parallel_size > 1) & ~batch.is_("pipeline_schedule", *V_SHAPED_SCHEDULES)

    def message(row: int) -> str:
        pipeline = batch.pipeline_parallel_size[row]
        return (
            f"pipelineParallelSize {pipeline}: {context.model.name} ties its embeddings, which "
            "need the first and the last stage on one rank; set it to 1 or use zero-bubble-v"
        )

    return Finding(apart & context.model.tied_embeddings, message)


def whole_query_key_norm_needs_whole_heads(context: RuleContext) -> Finding:
    """A query/key norm over all heads needs T = 1."""
    tensor = context.batch.tensor_parallel_size

    def message(row: int) -> str:
        return f"tensorParallelSize {tensor[row]}: {context.model.name} normalises over all heads, set it to 1"

    return Finding((tensor > 1) & (context.model.query_key_norm == "per-layer"), message)


def attention_sinks_are_available(context: RuleContext) -> Finding:
    """The model has no attention sinks."""

    def message(row: int) -> str:
        return f"model {context.model.name}: backend builtin has no attention sinks, use backend primus or megatron"

    return Finding(context.everywhere(context.model.attention_sinks), message)


def prediction_layers_are_available(context: RuleContext) -> Finding:
    """The model has no multi-token-prediction layers."""
    count = context.model.num_multi_token_prediction_layers

    def message(row: int) -> str:
        return f"model {context.model.name}: backend builtin has no multi-token prediction, set its {count} layers to 0"

    return Finding(context.everywhere(count > 0), message)
