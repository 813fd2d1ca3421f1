"""Running the chunks of one rank over its micro batches: plainly with one stage, else by torch's pipeline schedules."""

from collections.abc import Callable, Sequence

import torch

from tunewright.domain.pipeline_layout import layers_per_rank, layers_per_stage, virtual_stage
from tunewright.domain.training_config import V_SHAPED_SCHEDULES, TrainingConfig
from tunewright_trial.failures import unsupported
from tunewright_trial.layers.context import LayerContext
from tunewright_trial.layers.embedding import Embedding
from tunewright_trial.layers.head import Head
from tunewright_trial.layers.model_chunk import ModelChunk
from tunewright_trial.layers.split import Split

RunBatch = Callable[[torch.Tensor, torch.Tensor], float]
"""Forward and backward of one rank's batch: tokens and targets (sequences, S) to the mean loss.

The loss is 0 on ranks without the head."""


def stages_of_rank(config: TrainingConfig, num_layers: int, rank: int) -> list[tuple[int, list[int]]]:
    """Return the virtual stages of one pipeline rank in chunk order, each with the indices of its layers."""
    ranks, chunks = config.pipeline_parallel_size, config.virtual_pipeline_parallel_size
    counts = layers_per_rank(num_layers, ranks, chunks, config.pipeline_layout)
    per_stage = layers_per_stage(num_layers, ranks, chunks, config.pipeline_layout)
    order = sorted(
        (virtual_stage(place, chunk, ranks, _is_v_shaped(config)), place)
        for place in range(ranks)
        for chunk in range(chunks)
    )
    if per_stage is None and counts is not None:
        per_stage = tuple(counts[place] // chunks for _, place in order)
    if per_stage is None:
        raise unsupported(f"{num_layers} layers do not fit {ranks} ranks of {chunks} chunks: change pipelineLayout")
    stages, first = [], 0
    for (stage, place), layers in zip(order, per_stage, strict=True):
        if place == rank:
            stages.append((stage, list(range(first, first + layers))))
        first += layers
    return stages


def _is_v_shaped(config: TrainingConfig) -> bool:
    """Whether the last stage comes back to the rank of the first."""
    return config.pipeline_schedule in V_SHAPED_SCHEDULES and config.pipeline_parallel_size > 1


def build_chunks(context: LayerContext, config: TrainingConfig, rank: int) -> list[tuple[int, ModelChunk]]:
    """Build this rank's chunks of the whole model, with their virtual stage."""
    last = config.pipeline_parallel_size * config.virtual_pipeline_parallel_size - 1
    stages = stages_of_rank(config, context.model.num_layers, rank)
    indices = [stage for stage, _ in stages]
    tied = context.model.tied_embeddings
    tied_apart = tied and config.pipeline_parallel_size > 1 and not _is_v_shaped(config)
    embedding = Embedding(context, tied_apart) if 0 in indices else None
    shared = embedding.weight if tied and embedding is not None else None
    head = Head(context, shared, tied_apart) if last in indices else None
    return [
        (stage, ModelChunk(context, layers, embedding if stage == 0 else None, head if stage == last else None))
        for stage, layers in stages
    ]


def batch_runner(
    context: LayerContext,
    config: TrainingConfig,
    chunks: Sequence[tuple[int, ModelChunk]],
    pipeline: Split,
    micro_batches: int,
) -> RunBatch:
    """Return the function that runs one rank's batch of `micro_batches` micro batches."""
    if pipeline.size == 1:
        return _plain_runner([chunk for _, chunk in chunks], micro_batches)
    from tunewright_trial.parallel.schedules import PipelineRunner  # slow to import, and only pipelines need it

    return PipelineRunner(context, config, chunks, pipeline, micro_batches)


def _plain_runner(chunks: Sequence[ModelChunk], micro_batches: int) -> RunBatch:
    def run(tokens: torch.Tensor, targets: torch.Tensor) -> float:
        total = torch.zeros((), device=tokens.device)
        for part, wanted in zip(tokens.chunk(micro_batches), targets.chunk(micro_batches), strict=True):
            hidden = part
            for chunk in chunks:
                hidden = chunk(hidden, wanted)
            loss = hidden.sum() / micro_batches
            loss.backward()
            total += loss.detach()
        return float(total)

    return run
