"""torch's pipeline schedules over one rank's chunks. Slow to import: only with a pipeline."""

from collections.abc import Callable, Sequence

import torch
from torch.distributed import pipelining

from tunewright.domain.training_config import TrainingConfig
from tunewright_trial.failures import unsupported
from tunewright_trial.layers.context import LayerContext
from tunewright_trial.layers.model_chunk import ModelChunk
from tunewright_trial.layers.split import Split

SCHEDULES = {
    "1f1b": pipelining.Schedule1F1B,
    "interleaved-1f1b": pipelining.ScheduleInterleaved1F1B,
    "zero-bubble-v": pipelining.ScheduleZBVZeroBubble,
}
"""By our names. The others have no schedule in torch."""


class PipelineRunner:
    """Runs one rank's batch through its chunks, exchanging micro batches with the other ranks of the pipeline."""

    def __init__(
        self,
        context: LayerContext,
        config: TrainingConfig,
        chunks: Sequence[tuple[int, ModelChunk]],
        pipeline: Split,
        micro_batches: int,
    ) -> None:
        count = pipeline.size * len(chunks)
        indices = {index for index, _ in chunks}
        self._has_first, self._has_last = 0 in indices, count - 1 in indices
        stages = [_stage(context, index, count, chunk, pipeline) for index, chunk in chunks]
        self._schedule = _schedule(config.pipeline_schedule, stages, micro_batches)

    def __call__(self, tokens: torch.Tensor, targets: torch.Tensor) -> float:
        """Run forward and backward of all micro batches; return the mean loss, 0 on ranks without the head."""
        inputs = (tokens,) if self._has_first else ()
        if not self._has_last:
            self._schedule.step(*inputs)
            return 0.0
        losses: list[torch.Tensor] = []
        self._schedule.step(*inputs, target=targets, losses=losses, targets=targets)
        return float(torch.stack([loss.detach() for loss in losses]).sum())


def _schedule(
    name: str, stages: list[pipelining.PipelineStage], micro_batches: int
) -> pipelining.schedules._PipelineSchedule:
    kind = SCHEDULES.get(name)
    if kind is None:
        raise unsupported(f"torch ships no schedule {name}: use the primus backend or {', '.join(SCHEDULES)}")
    given = stages[0] if kind is pipelining.Schedule1F1B else stages
    try:
        # The loss carries the factor 1/M, since torch's own scaling would reach a tied weight once per stage.
        return kind(given, micro_batches, _mean_loss(micro_batches), scale_grads=False)
    except ValueError as error:
        raise unsupported(f"torch refuses the schedule {name} here: {error}") from error


def _stage(
    context: LayerContext, index: int, count: int, chunk: ModelChunk, pipeline: Split
) -> pipelining.PipelineStage:
    """Wrap a chunk with the shapes of what it takes and gives, so that torch need not find them out by sending."""
    tokens = torch.empty((context.micro_batch_size, context.sequence_slice), dtype=torch.long, device="meta")
    hidden = torch.empty(context.hidden_shape, dtype=context.dtype, device="meta", requires_grad=True)
    loss = torch.empty((1,), dtype=torch.float32, device="meta", requires_grad=True)
    return pipelining.PipelineStage(
        chunk,
        index,
        count,
        context.device,
        input_args=(tokens if index == 0 else hidden,),
        output_args=(loss if index == count - 1 else hidden,),
        group=pipeline.group,
    )


def _mean_loss(micro_batches: int) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    return lambda output, _: output.sum() / micro_batches
