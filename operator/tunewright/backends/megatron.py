"""Megatron-LM: a configuration as command line arguments, and back.

Argument names are those of megatron/training/arguments.py (core 0.16). Called by the exports of a finished run and by
the trial program's Megatron runner; `parse` serves round-trip tests and people's existing launch lines.
"""

import re
import shlex
from collections.abc import Iterable

from tunewright.backends.megatron_model import model_arguments
from tunewright.domain.config_batch import ConfigBatch
from tunewright.domain.pipeline_layout import StageTable, layers_per_rank, layers_per_stage, virtual_stage
from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import (
    EVEN_LAYOUT,
    V_SHAPED_SCHEDULES,
    ZERO_BUBBLE_SCHEDULES,
    TrainingConfig,
)
from tunewright.errors import InvalidInput

Argument = tuple[str, *tuple[str, ...]]

_FP8 = {"fp8": ("hybrid", "tensorwise"), "mxfp8": ("e4m3", "mxfp8")}
_DEGREES = {
    "--tensor-model-parallel-size": "tensor_parallel_size",
    "--pipeline-model-parallel-size": "pipeline_parallel_size",
    "--num-virtual-stages-per-pipeline-rank": "virtual_pipeline_parallel_size",
    "--context-parallel-size": "context_parallel_size",
    "--expert-model-parallel-size": "expert_parallel_size",
    "--expert-tensor-parallel-size": "expert_tensor_parallel_size",
    "--micro-batch-size": "micro_batch_size",
}


def arguments(problem: TuningProblem, config: TrainingConfig) -> list[Argument]:
    """Return the launch arguments; raise `InvalidInput` for a schedule that Megatron-LM does not have."""
    if config.pipeline_schedule in ZERO_BUBBLE_SCHEDULES:
        raise InvalidInput.of(
            "pipelineSchedule", config.pipeline_schedule, "Megatron-LM has no such schedule: launch it with Primus"
        )
    return [
        *model_arguments(problem.model, problem.sequence_length),
        ("--seq-length", str(problem.sequence_length)),
        ("--global-batch-size", str(problem.global_batch_size)),
        *_degrees(problem, config),
        *_layout(problem, config),
        *_recomputation(config),
        *_precision(config),
        *_optimizer(config),
        *_experts(problem, config),
    ]


def render(problem: TuningProblem, config: TrainingConfig) -> str:
    """Return the arguments as text, one a line, ready for `$(cat FILE)`; a comment where there is no such launch."""
    try:
        lines = [shlex.join(argument) for argument in arguments(problem, config)]
    except InvalidInput as error:
        return f"# {error}\n"
    return "\n".join(lines) + "\n"


def _degrees(problem: TuningProblem, config: TrainingConfig) -> Iterable[Argument]:
    for flag, field in _DEGREES.items():
        value = getattr(config, field)
        if flag == "--num-virtual-stages-per-pipeline-rank" and value == 1:
            continue  # Megatron reads its presence as "interleave"
        if "expert" in flag and not problem.model.is_moe:
            continue
        yield (flag, str(value))
    if config.sequence_parallel:
        yield ("--sequence-parallel",)


def _layout(problem: TuningProblem, config: TrainingConfig) -> Iterable[Argument]:
    if config.pipeline_layout == EVEN_LAYOUT:
        return
    edges = edge_layers(problem, config)
    if edges is not None:
        yield ("--decoder-first-pipeline-num-layers", str(edges[0]))
        yield ("--decoder-last-pipeline-num-layers", str(edges[1]))
    else:
        yield ("--pipeline-model-parallel-layout", layout_cells(stage_layers(problem, config)))


def edge_layers(problem: TuningProblem, config: TrainingConfig) -> tuple[int, int] | None:
    """Return the layers of the first and the last rank where all others are alike, which two arguments can say."""
    ranks, chunks = config.pipeline_parallel_size, config.virtual_pipeline_parallel_size
    layout = config.pipeline_layout
    if layers_per_stage(problem.model.num_layers, ranks, chunks, layout) is not None:
        return None
    counts = layers_per_rank(problem.model.num_layers, ranks, chunks, layout)
    if counts is None:
        raise InvalidInput.of("pipelineLayout", layout, "does not fit the model's layers")
    v_shaped = config.pipeline_schedule in V_SHAPED_SCHEDULES
    return None if v_shaped or len(set(counts[1:-1])) > 1 else (counts[0], counts[-1])


def stage_layers(problem: TuningProblem, config: TrainingConfig) -> tuple[int, ...]:
    """Return the layers of every virtual stage in the model's order."""
    table = StageTable.of(problem.model, ConfigBatch.of([config]))
    layers = (table.dense + table.moe)[0]
    ranks, chunks = layers.shape
    v_shaped = config.pipeline_schedule in V_SHAPED_SCHEDULES
    places = [(rank, chunk) for rank in range(ranks) for chunk in range(chunks)]
    in_order = sorted(places, key=lambda place: virtual_stage(place[0], place[1], ranks, v_shaped))
    return tuple(int(layers[place]) for place in in_order)


def layout_cells(stages: tuple[int, ...]) -> str:
    """Return Megatron's layout string: one cell per virtual stage, `E` the embedding, `t` a layer, `L` the loss.

    >>> layout_cells((2, 3, 2, 1))
    'Ett|ttt|tt|tL'
    """
    return f"E{'|'.join('t' * count for count in stages)}L"


def _recomputation(config: TrainingConfig) -> Iterable[Argument]:
    # `full` needs a method and a count, `selective` refuses both (arguments.py).
    if config.recompute_granularity == "full":
        yield ("--recompute-granularity", "full")
        yield ("--recompute-method", config.recompute_method)
        yield ("--recompute-num-layers", str(config.recompute_num_layers))
    elif config.recompute_granularity == "selective":
        yield ("--recompute-granularity", "selective")
        yield ("--recompute-modules", *config.recompute_modules)


def _precision(config: TrainingConfig) -> Iterable[Argument]:
    if config.precision == "fp32":
        return
    yield ("--bf16",)
    if config.precision in _FP8:
        form, recipe = _FP8[config.precision]
        yield ("--fp8-format", form)
        yield ("--fp8-recipe", recipe)


def _optimizer(config: TrainingConfig) -> Iterable[Argument]:
    if config.optimizer == "distributed":
        yield ("--use-distributed-optimizer",)
    elif config.optimizer == "fsdp2":
        yield ("--use-torch-fsdp2",)
        yield ("--no-gradient-accumulation-fusion",)
    if config.overlap_grad_reduce:
        yield ("--overlap-grad-reduce",)
    if config.overlap_param_gather and config.optimizer == "distributed":
        yield ("--overlap-param-gather",)
    if config.cross_entropy_fusion:
        yield ("--cross-entropy-loss-fusion",)


def _experts(problem: TuningProblem, config: TrainingConfig) -> Iterable[Argument]:
    if not problem.model.is_moe:
        return
    if config.moe_dispatcher == "deepep":
        yield ("--moe-token-dispatcher-type", "flex")
        yield ("--moe-enable-deepep",)
        yield ("--moe-router-dtype", "fp32")
    else:
        yield ("--moe-token-dispatcher-type", "alltoall")


def parse(text: str) -> TrainingConfig:
    """Read the configuration out of launch arguments, as far as Megatron-LM expresses it."""
    values = flags(text)
    fields: dict[str, object] = {
        field: _whole(flag, values[flag]) for flag, field in _DEGREES.items() if flag in values
    }
    fields |= _parsed_switches(values)
    if "--recompute-granularity" in values:
        fields["recompute_granularity"] = values["--recompute-granularity"][0]
        fields["recompute_modules"] = tuple(values.get("--recompute-modules", ()))
    if "--recompute-method" in values:
        fields["recompute_method"] = values["--recompute-method"][0]
        fields["recompute_num_layers"] = _whole("--recompute-num-layers", values.get("--recompute-num-layers", ["1"]))
    return TrainingConfig.parse(fields, "arguments")


def flags(text: str) -> dict[str, list[str]]:
    """Return every argument of a launch line with its words; raise `InvalidInput` where a quote is left open.

    Lines of a script end in a backslash, which `shlex` alone would read as part of a word.
    """
    try:
        words = shlex.split(re.sub(r"\\\r?\n", " ", text), comments=True)
    except ValueError as error:
        raise InvalidInput.of("arguments", text, f"cannot be read: {error}") from None
    words = [part for word in words for part in (word.split("=", 1) if word.startswith("--") else [word])]
    return {word: _values_after(words, index) for index, word in enumerate(words) if word.startswith("--")}


def _parsed_switches(values: dict[str, list[str]]) -> dict[str, object]:
    recipe = values.get("--fp8-recipe", [""])[0]
    fp8 = "mxfp8" if recipe == "mxfp8" else "fp8"
    interleaved = "--num-virtual-stages-per-pipeline-rank" in values
    optimizer = "distributed" if "--use-distributed-optimizer" in values else "replicated"
    return {
        "precision": fp8 if "--fp8-format" in values else "bf16" if "--bf16" in values else "fp32",
        "optimizer": "fsdp2" if "--use-torch-fsdp2" in values else optimizer,
        "overlap_grad_reduce": "--overlap-grad-reduce" in values,
        "overlap_param_gather": "--overlap-param-gather" in values,
        "cross_entropy_fusion": "--cross-entropy-loss-fusion" in values,
        "moe_dispatcher": "deepep" if "--moe-enable-deepep" in values else "all-to-all",
        "pipeline_schedule": "interleaved-1f1b" if interleaved else "1f1b",
    }


def _values_after(words: list[str], index: int) -> list[str]:
    values = []
    for word in words[index + 1 :]:
        if word.startswith("--"):
            break
        values.append(word)
    return values


def _whole(flag: str, values: list[str]) -> int:
    if len(values) != 1 or not values[0].isdigit():
        raise InvalidInput.of(flag, " ".join(values), "needs one whole number")
    return int(values[0])
