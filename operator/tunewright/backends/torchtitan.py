"""torchtitan: a configuration as a job configuration in TOML, and back.

Section and key names are those of pytorch/torchtitan (`torchtitan/config/job_config.py`, v0.2). Models come from
torchtitan's own registry: name and flavor are to be set to the entry with the model's shape. Called by the exports of a
finished run; `parse` serves round-trip tests and people's existing files.
"""

import tomllib
from typing import Any

from tunewright.domain.config_batch import ConfigBatch
from tunewright.domain.degrees import Degrees
from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import TrainingConfig
from tunewright.errors import InvalidInput

SCHEDULES = {"1f1b": "1F1B", "interleaved-1f1b": "Interleaved1F1B", "zero-bubble-v": "ZBVZeroBubble"}
_CHECKPOINTING = {"none": "none", "selective": "selective", "full": "full"}
_CONVERTERS = {"fp8": "quantize.linear.float8", "mxfp8": "quantize.linear.mx"}
_DEGREES = {
    "tensor_parallel_degree": "tensor_parallel_size",
    "pipeline_parallel_degree": "pipeline_parallel_size",
    "context_parallel_degree": "context_parallel_size",
    "expert_parallel_degree": "expert_parallel_size",
    "expert_tensor_parallel_degree": "expert_tensor_parallel_size",
    "pipeline_parallel_microbatch_size": "micro_batch_size",
}

Document = dict[str, dict[str, Any]]


def document(problem: TuningProblem, config: TrainingConfig) -> Document:
    """Return the sections; raise `InvalidInput` for what torchtitan cannot express."""
    if config.pipeline_schedule not in SCHEDULES:
        raise InvalidInput.of(
            "pipelineSchedule", config.pipeline_schedule, "torchtitan has no such schedule: launch it with Primus"
        )
    if config.optimizer == "distributed":
        raise InvalidInput.of("optimizer", config.optimizer, "torchtitan shards weights as well: use fsdp2")
    model = problem.model
    return {
        "job": {"description": f"{model.name} {config.digest()[:8]}"},
        "model": {"name": model.name, "flavor": model.name, "converters": _converters(config)},
        "training": _training(problem, config),
        "parallelism": _parallelism(problem, config),
        "activation_checkpoint": {"mode": _CHECKPOINTING[config.recompute_granularity], "selective_ac_option": "op"},
    }


def render(problem: TuningProblem, config: TrainingConfig) -> str:
    """Return the job configuration as TOML text; a comment where there is no such launch."""
    try:
        sections = document(problem, config)
    except InvalidInput as error:
        return f"# {error}\n"
    head = "# model.name and model.flavor: set them to the entry of torchtitan's registry with this shape\n"
    return head + "\n".join(_section(name, keys) for name, keys in sections.items())


def _section(name: str, keys: dict[str, Any]) -> str:
    return "\n".join([f"[{name}]", *(f"{key} = {_value(value)}" for key, value in keys.items())]) + "\n"


def _value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    return str(value) if isinstance(value, int) else f'"{value}"'


def _converters(config: TrainingConfig) -> list[str]:
    return [_CONVERTERS[config.precision]] if config.precision in _CONVERTERS else []


def _training(problem: TuningProblem, config: TrainingConfig) -> dict[str, Any]:
    """With a pipeline the local batch is a whole step, cut into micro batches; without, it is one micro batch."""
    whole = problem.global_batch_size // _data_ranks(problem, config)
    return {
        "seq_len": problem.sequence_length,
        "global_batch_size": problem.global_batch_size,
        "local_batch_size": whole if config.pipeline_parallel_size > 1 else config.micro_batch_size,
        "mixed_precision_param": "float32" if config.precision == "fp32" else "bfloat16",
        "mixed_precision_reduce": "float32",
        "steps": 50,
    }


def _parallelism(problem: TuningProblem, config: TrainingConfig) -> dict[str, Any]:
    sharded = config.optimizer == "fsdp2"
    data = _data_ranks(problem, config)
    keys: dict[str, Any] = {
        "data_parallel_shard_degree": data if sharded else 1,
        "data_parallel_replicate_degree": 1 if sharded else data,
        **{theirs: getattr(config, ours) for theirs, ours in _DEGREES.items()},
        "pipeline_parallel_schedule": SCHEDULES[config.pipeline_schedule],
        "expert_parallel_comm_backend": "deepep" if config.moe_dispatcher == "deepep" else "standard",
    }
    if config.virtual_pipeline_parallel_size > 1:
        stages = config.pipeline_parallel_size * config.virtual_pipeline_parallel_size
        keys["pipeline_parallel_layers_per_stage"] = max(problem.model.num_layers // stages, 1)
    return keys


def _data_ranks(problem: TuningProblem, config: TrainingConfig) -> int:
    return int(Degrees.of(problem, ConfigBatch.of([config])).data_parallel_size[0])


def parse(problem: TuningProblem, text: str) -> TrainingConfig:
    """Read the configuration out of a job configuration, as far as torchtitan expresses it."""
    try:
        sections = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput.of("torchtitan configuration", None, f"is not TOML: {error}") from None
    keys, training = _mapping(sections, "parallelism"), _mapping(sections, "training")
    converters = _mapping(sections, "model").get("converters", [])
    schedules = {theirs: ours for ours, theirs in SCHEDULES.items()}
    schedule = keys.get("pipeline_parallel_schedule", "1F1B")
    pipeline = keys.get("pipeline_parallel_degree", 1)
    fields: dict[str, object] = {ours: keys.get(theirs, 1) for theirs, ours in _DEGREES.items()}
    if pipeline == 1:
        fields["micro_batch_size"] = training.get("local_batch_size", 1)
    plain = "fp32" if training.get("mixed_precision_param") == "float32" else "bf16"
    fields |= {
        "virtual_pipeline_parallel_size": _virtual(problem, keys, pipeline),
        "pipeline_schedule": schedules.get(schedule, schedule),
        "recompute_granularity": _mapping(sections, "activation_checkpoint").get("mode", "none"),
        "precision": next((ours for ours, theirs in _CONVERTERS.items() if theirs in converters), plain),
        "moe_dispatcher": "deepep" if keys.get("expert_parallel_comm_backend") == "deepep" else "all-to-all",
        "optimizer": "fsdp2" if keys.get("data_parallel_shard_degree", -1) != 1 else "replicated",
    }
    return TrainingConfig.parse(fields, "parallelism")


def _virtual(problem: TuningProblem, keys: dict[str, Any], pipeline: object) -> int:
    layers = keys.get("pipeline_parallel_layers_per_stage")
    if layers is None or not isinstance(pipeline, int) or not isinstance(layers, int) or layers * pipeline < 1:
        return 1
    return max(problem.model.num_layers // (layers * pipeline), 1)


def _mapping(sections: dict[str, Any], name: str) -> dict[str, Any]:
    found = sections.get(name, {})
    if not isinstance(found, dict):
        raise InvalidInput.of(name, found, "must be a section")
    return found
