"""What torchtitan's own job configuration cannot express.

Source: pytorch/torchtitan, `torchtitan/config` (parallelism and activation checkpointing) and
`torchtitan/distributed/activation_checkpoint.py`.
"""

from tunewright.legality.rule import Finding, RuleContext


def weights_are_sharded_or_replicated(context: RuleContext) -> Finding:
    """The optimizer is fsdp2 or replicated: torchtitan does not shard optimizer states alone."""

    def message(row: int) -> str:
        return "optimizer distributed: torchtitan shards weights, gradients and states together, use fsdp2"

    return Finding(context.batch.is_("optimizer", "distributed"), message)


def selective_recompute_is_by_operation(context: RuleContext) -> Finding:
    """Selective recomputation names no modules: torchtitan keeps attention and every second matrix product."""
    batch = context.batch

    def message(row: int) -> str:
        modules = ", ".join(batch.config(row).recompute_modules)
        return f"recomputeModules {modules}: torchtitan's selective recomputation takes none, leave the list empty"

    return Finding(batch.columns["recompute_modules"] != 0, message)


def full_recompute_is_by_layer(context: RuleContext) -> Finding:
    """Full recomputation is uniform with one layer a unit."""
    batch = context.batch
    by_layer = batch.is_("recompute_method", "uniform") & (batch.recompute_num_layers == 1)

    def message(row: int) -> str:
        method, count = context.name_of("recompute_method", row), batch.recompute_num_layers[row]
        return f"recomputeMethod {method}, recomputeNumLayers {count}: torchtitan has only uniform with 1 layer"

    return Finding(batch.is_("recompute_granularity", "full") & ~by_layer, message)
