"""The layers of each pipeline stage of a row, which tables do not state. Called by `published` and `vtrain`."""

from tunewright.domain.pipeline_layout import layers_per_rank


def balanced_layout(layers: int, extra_layers: int, ranks: int, chunks: int) -> str:
    """Return `even` where layers divide, else layers per stage with embedding, loss and prediction layers counted.

    That is how launchers fill 126 layers into 32 stages, or 61 into 16: outer stages carry a layer less for the
    embedding and for the loss; a remainder goes to the first stages.
    """
    if layers_per_rank(layers, ranks, chunks, "even") is not None:
        return "even"
    stages = ranks * chunks
    total = layers + 2 + extra_layers
    share, more = divmod(total, stages)
    counts = [share + (1 if stage < more else 0) for stage in range(stages)]
    counts[0] -= 1
    counts[-1] -= 1 + extra_layers
    for stage in range(stages):
        if counts[stage] < 0:
            counts[stages // 2] += counts[stage]
            counts[stage] = 0
    return ",".join(str(count) for count in counts)


def single_layer_chunks(layers: int, ranks: int) -> int:
    """Return the chunks of a rank when each holds one layer, embedding and loss counted where layers do not divide."""
    if layers % ranks == 0:
        return layers // ranks
    return -(-(layers + 2) // ranks)
