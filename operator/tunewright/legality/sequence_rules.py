"""Rules on splitting the sequence: context parallelism, sequence parallelism, learned positions.

Source: `megatron/training/arguments.py` and `megatron/core/utils.py` of NVIDIA/Megatron-LM; `context_parallel.py` of
NVIDIA/TransformerEngine. Launches use the default ring for context parallelism.
"""

from tunewright.legality.rule import Finding, RuleContext


def context_divides_sequence(context: RuleContext) -> Finding:
    """2C divides the sequence: each rank holds an early and a late chunk, to balance causal attention."""
    ranks, length = context.batch.context_parallel_size, context.problem.sequence_length

    def message(row: int) -> str:
        return (
            f"contextParallelSize {ranks[row]}: twice it does not divide sequenceLength {length}; "
            "lower it, or choose a longer power of two as the sequence length"
        )

    return Finding((ranks > 1) & (length % (2 * ranks) != 0), message)


def sequence_parallel_divides_slice(context: RuleContext) -> Finding:
    """With sequence parallelism (T > 1), T divides the S/C tokens of a rank."""
    batch, length = context.batch, context.problem.sequence_length
    tensor, ranks = batch.tensor_parallel_size, batch.context_parallel_size
    tokens = context.degrees.sequence_slice

    def message(row: int) -> str:
        return (
            f"tensorParallelSize {tensor[row]} does not divide the {tokens[row]} tokens of a rank "
            f"(sequenceLength {length} / contextParallelSize {ranks[row]}), which sequence parallelism splits: lower it"
        )

    return Finding((length % ranks == 0) & (tokens % tensor != 0), message)


def context_needs_full_attention(context: RuleContext) -> Finding:
    """C > 1 and a sliding window exclude each other: ring attention has no windows."""
    ranks, window = context.batch.context_parallel_size, context.model.sliding_window

    def message(row: int) -> str:
        return (
            f"contextParallelSize {ranks[row]}: ring attention has no sliding window, and {context.model.name} has one "
            f"of {window} tokens; set it to 1"
        )

    return Finding((ranks > 1) & (window > 0), message)


def context_excludes_attention_sinks(context: RuleContext) -> Finding:
    """C > 1 and attention sinks exclude each other: ring attention has no sinks."""
    ranks = context.batch.context_parallel_size

    def message(row: int) -> str:
        return (
            f"contextParallelSize {ranks[row]}: ring attention has no attention sinks, and {context.model.name} has; "
            "set it to 1"
        )

    return Finding((ranks > 1) & context.model.attention_sinks, message)


def sequence_fits_position_table(context: RuleContext) -> Finding:
    """The sequence is no longer than the model's learned position table."""
    length, rows = context.problem.sequence_length, context.model.learned_position_embeddings

    def message(row: int) -> str:
        return f"sequenceLength {length}: {context.model.name} has learned positions for {rows} tokens, shorten it"

    return Finding(context.everywhere(0 < rows < length), message)
