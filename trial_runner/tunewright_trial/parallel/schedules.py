"""torch's pipeline schedules over one rank's chunks. Slow to import: only with a pipeline.

Three schedules are torch's own; the others are descriptions for its runtime: the order of operations that projections
simulate, lowered by torch to sends and receives.
"""

from collections.abc import Callable, Sequence

import torch
from torch.distributed import pipelining
from torch.distributed.pipelining.schedules import _Action, _ComputationType, _PipelineScheduleRuntime

from tunewright.domain.pipeline_layout import virtual_stage
from tunewright.domain.schedule.operation import BACKWARD, FORWARD, WEIGHT
from tunewright.domain.schedule.orders import rank_orders
from tunewright.domain.training_config import V_SHAPED_SCHEDULES, TrainingConfig
from tunewright_trial.failures import unsupported
from tunewright_trial.layers.context import LayerContext
from tunewright_trial.layers.model_chunk import ModelChunk
from tunewright_trial.layers.split import Split

SHIPPED = {
    "1f1b": pipelining.Schedule1F1B,
    "interleaved-1f1b": pipelining.ScheduleInterleaved1F1B,
    "zero-bubble-v": pipelining.ScheduleZBVZeroBubble,
}
"""By our names. The others have no schedule in torch."""

_KINDS = {
    FORWARD: _ComputationType.FORWARD,
    BACKWARD: _ComputationType.BACKWARD_INPUT,
    WEIGHT: _ComputationType.BACKWARD_WEIGHT,
}


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
        try:
            self._schedule = _schedule(config, stages, micro_batches)
        except ValueError as error:
            raise unsupported(f"torch refuses the schedule {config.pipeline_schedule} here: {error}") from error

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
    config: TrainingConfig, stages: list[pipelining.PipelineStage], micro_batches: int
) -> pipelining.schedules._PipelineSchedule:
    """Build the schedule. The loss carries the factor 1/M: torch's own would reach a tied weight once per stage."""
    name, loss = config.pipeline_schedule, _mean_loss(micro_batches)
    shipped = SHIPPED.get(name)
    if shipped is None:
        return _described(config, stages, micro_batches, loss)
    return shipped(stages[0] if name == "1f1b" else stages, micro_batches, loss, scale_grads=False)


def _described(
    config: TrainingConfig,
    stages: list[pipelining.PipelineStage],
    micro_batches: int,
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
) -> pipelining.schedules._PipelineSchedule:
    schedule = _PipelineScheduleRuntime(stages, micro_batches, loss, scale_grads=False)
    schedule.pipeline_order = described_actions(config, micro_batches)
    schedule._prepare_schedule_with_comms(schedule.pipeline_order)
    return schedule


def described_actions(config: TrainingConfig, micro_batches: int) -> dict[int, list[_Action]]:
    """Return what every pipeline rank computes, in order: the order that projections simulate."""
    ranks, name = config.pipeline_parallel_size, config.pipeline_schedule
    orders = rank_orders(name, ranks, config.virtual_pipeline_parallel_size, micro_batches)
    v_shaped = name in V_SHAPED_SCHEDULES
    return {
        rank: [
            _Action(virtual_stage(rank, chunk, ranks, v_shaped), _KINDS[kind], index) for kind, chunk, index in order
        ]
        for rank, order in enumerate(orders)
    }


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
