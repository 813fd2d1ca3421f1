"""What this project's own trial runner does not compute, known here before a launch instead of as a failed trial."""

from tunewright.legality.rule import Finding, RuleContext

_PRECISIONS = ("bf16", "fp32", "fp8")


def precision_is_in_builtin_runner(context: RuleContext) -> Finding:
    """The runner computes in bf16, fp32 or fp8."""

    def message(row: int) -> str:
        precision = context.name_of("precision", row)
        return f"precision {precision}: backend builtin computes in {' or '.join(_PRECISIONS)}; use one of them"

    return Finding(~context.batch.is_("precision", *_PRECISIONS), message)


def fsdp2_needs_whole_experts(context: RuleContext) -> Finding:
    """FSDP2 needs ET = 1: it shards all weights over the same ranks."""
    split = context.batch.expert_tensor_parallel_size

    def message(row: int) -> str:
        return f"optimizer fsdp2: needs expertTensorParallelSize 1, not {split[row]}; use distributed"

    return Finding(context.batch.is_("optimizer", "fsdp2") & (split > 1), message)


def split_query_key_norm_is_rms(context: RuleContext) -> Finding:
    """A query/key norm over all heads runs on T > 1 ranks only as RMSNorm."""
    tensor, model = context.batch.tensor_parallel_size, context.model

    def message(row: int) -> str:
        return f"tensorParallelSize {tensor[row]}: {model.name} has a LayerNorm over all heads, set it to 1"

    layer_norm = model.query_key_norm == "per-layer" and model.normalization == "layernorm"
    return Finding((tensor > 1) & layer_norm, message)


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
