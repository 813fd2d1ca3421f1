"""Rules on the pipeline: layout, schedule, virtual stages and micro batches.

Source: `megatron/training/arguments.py` and `megatron/core/pipeline_parallel/schedules.py` of NVIDIA/Megatron-LM,
AMD-AGI/Primus `primus/core/pipeline_parallel/scheduler`, pytorch `torch/distributed/pipelining/schedules.py`.
"""

import numpy as np

from tunewright.domain.training_config import EVEN_LAYOUT, V_SHAPED_SCHEDULES
from tunewright.legality.rule import Finding, RuleContext

_TORCH_SCHEDULES = ("1f1b", "interleaved-1f1b", "zero-bubble-v")
_MEGATRON_SCHEDULES = ("1f1b", "interleaved-1f1b")


def layout_fits_layers(context: RuleContext) -> Finding:
    """Every pipeline rank and model chunk gets the same whole number of layers, or those of an uneven layout."""
    batch, layers = context.batch, context.model.num_layers

    def message(row: int) -> str:
        pipeline, virtual = batch.pipeline_parallel_size[row], batch.virtual_pipeline_parallel_size[row]
        layout = batch.layout_names[row]
        if layout == EVEN_LAYOUT:
            remedy = "lower one of them, or use pipelineLayout shorter-edges or a list of layers per rank"
        else:
            remedy = f"a list needs {pipeline} numbers divisible by {virtual} that sum to {layers}; or use even"
        return (
            f"pipelineLayout {layout}: {layers} layers do not fit pipelineParallelSize {pipeline} x "
            f"virtualPipelineParallelSize {virtual}: {remedy}"
        )

    return Finding(context.largest_chunk == 0, message)


def inner_stages_hold_layers(context: RuleContext) -> Finding:
    """Every virtual stage holds a layer, but the first may hold the embedding alone, and the last the loss."""
    return _empty_stages(context, slice(1, -1), "first and last, which hold embedding and loss")


def every_stage_holds_layers(context: RuleContext) -> Finding:
    """Every virtual stage holds a layer."""
    return _empty_stages(context, slice(None), "none")


def schedule_fixes_virtual_pipeline(context: RuleContext) -> Finding:
    """V is 2 in V-shaped schedules, at least 2 when interleaved, and 1 otherwise."""
    batch, virtual = context.batch, context.batch.virtual_pipeline_parallel_size
    v_shaped = batch.is_("pipeline_schedule", *V_SHAPED_SCHEDULES)
    interleaved = batch.is_("pipeline_schedule", "interleaved-1f1b")
    violated = np.where(v_shaped, virtual != 2, np.where(interleaved, virtual < 2, virtual != 1))

    def message(row: int) -> str:
        needed = "2" if v_shaped[row] else "2 or more" if interleaved[row] else "1 (interleaved-1f1b takes more)"
        schedule = context.name_of("pipeline_schedule", row)
        return f"virtualPipelineParallelSize {virtual[row]}: schedule {schedule} needs {needed}"

    return Finding(violated, message)


def schedule_needs_pipeline(context: RuleContext) -> Finding:
    """Without pipeline ranks the schedule is 1f1b; any other, and so V > 1, needs P > 1."""
    batch = context.batch

    def message(row: int) -> str:
        return (
            f"pipelineSchedule {context.name_of('pipeline_schedule', row)}: needs pipelineParallelSize above 1, "
            "raise it or use 1f1b with virtualPipelineParallelSize 1"
        )

    return Finding((batch.pipeline_parallel_size == 1) & ~batch.is_("pipeline_schedule", "1f1b"), message)


def schedule_is_in_megatron(context: RuleContext) -> Finding:
    """The schedule is one that Megatron has."""
    return _schedule_among(context, _MEGATRON_SCHEDULES)


def schedule_is_in_torch(context: RuleContext) -> Finding:
    """The schedule is one that this project takes from torch.distributed.pipelining."""
    return _schedule_among(context, _TORCH_SCHEDULES)


def batch_is_divisible(context: RuleContext) -> Finding:
    """The global batch is a multiple of b·D, with the D that loads data: W/(T·C·P)."""
    size, data = context.batch.micro_batch_size, context.degrees.data_parallel_size
    whole = context.problem.global_batch_size

    def message(row: int) -> str:
        return (
            f"microBatchSize {size[row]} x data parallel size {data[row]} = {size[row] * data[row]} does not divide "
            f"globalBatchSize {whole}: lower the micro batch, or make the global batch a multiple"
        )

    return Finding(context.fills_world & ~context.has_whole_steps, message)


def interleaving_needs_whole_groups(context: RuleContext) -> Finding:
    """Interleaved in Megatron: P divides the micro batches (its groups have P of them)."""
    count, pipeline = context.degrees.num_micro_batches, context.batch.pipeline_parallel_size
    interleaved = context.batch.is_("pipeline_schedule", "interleaved-1f1b") & context.has_whole_steps

    def message(row: int) -> str:
        return _micro_batches(context, row, f"must be a multiple of pipelineParallelSize {pipeline[row]}")

    return Finding(interleaved & (count % pipeline != 0), message)


def zero_bubble_v_fills_pipeline(context: RuleContext) -> Finding:
    """zero-bubble-v in Primus: at least 2P − 1 micro batches."""
    count, pipeline = context.degrees.num_micro_batches, context.batch.pipeline_parallel_size
    v_shaped = context.batch.is_("pipeline_schedule", "zero-bubble-v") & context.has_whole_steps

    def message(row: int) -> str:
        return _micro_batches(context, row, f"must be at least {2 * pipeline[row] - 1} (2 x pipeline ranks - 1)")

    return Finding(v_shaped & (count < 2 * pipeline - 1), message)


def torch_1f1b_fills_pipeline(context: RuleContext) -> Finding:
    """1f1b in torch: at least P micro batches."""
    count, pipeline = context.degrees.num_micro_batches, context.batch.pipeline_parallel_size
    plain = context.batch.is_("pipeline_schedule", "1f1b") & context.has_whole_steps

    def message(row: int) -> str:
        return _micro_batches(context, row, f"must be at least pipelineParallelSize {pipeline[row]}")

    return Finding(plain & (count < pipeline), message)


def torch_interleaving_needs_whole_rounds(context: RuleContext) -> Finding:
    """Interleaved in torch: the ⌊M/P⌋ rounds (at least one) divide the micro batches."""
    count, pipeline = context.degrees.num_micro_batches, context.batch.pipeline_parallel_size
    rounds = np.maximum(count // pipeline, 1)
    interleaved = context.batch.is_("pipeline_schedule", "interleaved-1f1b") & context.has_whole_steps

    def message(row: int) -> str:
        return _micro_batches(context, row, f"must be divisible into {rounds[row]} equal rounds")

    return Finding(interleaved & (count % rounds != 0), message)


def pipeline_is_filled(context: RuleContext) -> Finding:
    """There are at least as many micro batches as pipeline ranks; fewer launch, with idle ranks."""
    count, pipeline = context.degrees.num_micro_batches, context.batch.pipeline_parallel_size

    def message(row: int) -> str:
        return _micro_batches(context, row, f"leaves some of the {pipeline[row]} pipeline ranks idle")

    return Finding(context.has_whole_steps & (count < pipeline), message)


def _empty_stages(context: RuleContext, stages: slice, exempt: str) -> Finding:
    """Only explicit lists can have an empty stage."""
    batch = context.batch
    empty = np.array(["0" in layout.split(",")[stages] for layout in batch.layouts], dtype=bool)

    def message(row: int) -> str:
        return (
            f"pipelineLayout {batch.layout_names[row]}: stages without a layer ({exempt} excepted) cannot be launched; "
            "move a layer there or use even"
        )

    return Finding(empty[batch.columns["pipeline_layout"]], message)


def _schedule_among(context: RuleContext, schedules: tuple[str, ...]) -> Finding:
    available = context.batch.is_("pipeline_schedule", *schedules)

    def message(row: int) -> str:
        schedule, backend = context.name_of("pipeline_schedule", row), context.problem.backend
        return f"pipelineSchedule {schedule}: backend {backend} has only {', '.join(schedules)}"

    return Finding(~available, message)


def _micro_batches(context: RuleContext, row: int, need: str) -> str:
    degrees, size = context.degrees, context.batch.micro_batch_size[row]
    schedule = context.name_of("pipeline_schedule", row)
    return (
        f"microBatchSize {size}: schedule {schedule} with {degrees.num_micro_batches[row]} micro batches "
        f"(globalBatchSize {context.problem.global_batch_size} / ({size} x data parallel "
        f"{degrees.data_parallel_size[row]})): their number {need}"
    )
