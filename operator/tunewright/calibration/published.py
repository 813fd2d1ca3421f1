"""Rows in the columns of `published_throughput.csv`: one measured result each, of any model on any device.

Called by `reading`. A column that an identity fixes is derived; one that the source does not state takes the launcher's
default, and the row says so; a row without what the model needs is skipped with its reason.
"""

from typing import Any

from tunewright.calibration.architecture import architecture_of
from tunewright.calibration.columns import Row, integer, number, text
from tunewright.calibration.layout import balanced_layout, single_layer_chunks
from tunewright.calibration.measured_row import MeasuredRow, Unusable
from tunewright.calibration.memory_stack import memory_software_of
from tunewright.calibration.recomputation import recomputation_of
from tunewright.calibration.stack import (
    backend_of,
    dispatcher_of,
    implementation_of,
    optimizer_of,
    software_of,
)
from tunewright.domain.catalog_loader import Catalog
from tunewright.domain.config_batch import ConfigBatch
from tunewright.domain.hardware import Cluster
from tunewright.domain.model_architecture import ModelArchitecture
from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import TrainingConfig, default_recompute_modules
from tunewright.errors import InvalidInput
from tunewright.memory.estimate import estimate as estimate_memory
from tunewright.memory.fit import fit
from tunewright.memory.software import Software as MemorySoftware
from tunewright.performance.flops import model_flops_per_step

_DEVICES = {"h100-96gb-500w": "h100-96gb"}
_PRECISIONS = {
    "bf16": "bf16",
    "fp16": "bf16",
    "bf16/fp16": "bf16",
    "fp8": "fp8",
    "fp8_cs": "fp8",
    "fp8_tensorwise": "fp8",
    "fp8_rowwise": "bf16",
    "fp8_blockwise": "fp8",
    "mxfp8": "mxfp8",
    "fp32": "fp32",
}
_SCHEDULES = {
    "": "",
    "none": "1f1b",
    "1f1b": "1f1b",
    "interleaved_1f1b": "interleaved-1f1b",
    "zb1p": "zero-bubble-h1",
    "zbb": "zero-bubble-h1",
    "zb2p": "zero-bubble-h2",
    "zbv": "zero-bubble-v",
    "v-half": "v-half",
    "v-min": "v-min",
}
NATURAL_IMBALANCE = 1.4
"""Busiest rank's rows over the balanced share where routing is not forced: Qwen3-30B and DeepSeek-V2-Lite on AMD and
NVIDIA lose 1.3 to 1.8 times in speed against forced balance."""


def published_row(row: Row, catalog: Catalog) -> MeasuredRow:
    """Turn a row into a measurement; raises `Unusable` with a reason for people."""
    _refuse_unscored(row)
    model, notes = architecture_of(row, catalog)
    cluster = _cluster(row, catalog)
    precision = _known(row, "precision", _PRECISIONS)
    problem = _problem(row, model, cluster, precision)
    config, more = _config(row, problem)
    memory_software, memory_stack = memory_software_of(row, problem)
    config, again = _with_recomputation(row, problem, config, memory_software)
    if text(row, "precision") == "fp8_rowwise":
        again = (*again, "scales by row: dynamic scaling takes what the 8-bit product gains, so modelled as bf16")
    software, stack = software_of(row, problem, config)
    seconds, derived = _step_seconds(row, problem)
    memory = number(row, "mem_gb_measured")
    if seconds is None and memory is None:
        raise Unusable("has neither a time nor a memory figure")
    return MeasuredRow(
        identity=text(row, "id"),
        device=text(row, "gpu"),
        model=text(row, "model"),
        precision=text(row, "precision"),
        schedule=config.pipeline_schedule,
        source=_source(row),
        group=(text(row, "model"), text(row, "gpu"), cluster.world_size, problem.global_batch_size, *_fixed(row)),
        problem=problem,
        config=config,
        software=software,
        step_seconds=seconds if text(row, "scored") != "memory" else None,
        memory_bytes=memory * 1e9 if memory is not None else None,
        memory_kind=text(row, "memory_kind"),
        notes=(*notes, *more, *again, *stack, *memory_stack, *derived),
        memory_software=memory_software,
    )


def _refuse_unscored(row: Row) -> None:
    scored = text(row, "scored")
    if scored.startswith("no"):
        raise Unusable(f"not scored: {scored.removeprefix('no').lstrip(':') or 'by the table'}")


def _fixed(row: Row) -> tuple[str, ...]:
    return text(row, "seq"), text(row, "precision"), text(row, "software"), text(row, "recompute")


def _source(row: Row) -> str:
    """Where a row is from: the page without its release, or the software where no page is named."""
    url = text(row, "source_url")
    if "performance-summary" in url or "model_verification" in url:
        return "megatron-bridge " + text(row, "software")
    return url.split(" ")[0] or text(row, "software")


def _known(row: Row, name: str, known: dict[str, str]) -> str:
    value = text(row, name)
    if value not in known:
        raise Unusable(f"{name} is not modelled: {value or 'empty'}")
    return known[value]


def _cluster(row: Row, catalog: Catalog) -> Cluster:
    name = text(row, "gpu").lower()
    name = _DEVICES.get(name, name)
    if name not in catalog.accelerators:
        raise Unusable(f"gpu is not in the catalog: {text(row, 'gpu') or 'empty'}")
    gpus = integer(row, "n_gpus")
    per_node = min(integer(row, "gpus_per_node", 8), gpus)
    if not per_node or gpus % per_node:
        raise Unusable(f"n_gpus {gpus} is not a multiple of gpus_per_node {per_node}")
    return Cluster(
        nodes=gpus // per_node,
        gpus_per_node=per_node,
        accelerator=catalog.accelerator(name),
        network=catalog.default_network_for(name),
    )


def _problem(row: Row, model: ModelArchitecture, cluster: Cluster, precision: str) -> TuningProblem:
    document = {
        "model": model,
        "sequence_length": integer(row, "seq"),
        "global_batch_size": _global_batch(row, cluster.world_size),
        "precision": precision,
        "backend": backend_of(row),
        "implementation": implementation_of(row),
        "cluster": cluster,
        "routing_imbalance": NATURAL_IMBALANCE if text(row, "routing") in ("natural", "skewed") else 1.0,
    }
    try:
        return TuningProblem.parse(document, "row")
    except InvalidInput as error:
        raise Unusable(str(error)) from None


def _global_batch(row: Row, world: int) -> int:
    """For memory alone one micro batch a rank will do: it does not depend on how many follow."""
    if text(row, "scored") == "memory" and not text(row, "gbs"):
        parts = integer(row, "tp", 1) * integer(row, "pp", 1) * integer(row, "cp", 1)
        return integer(row, "mbs") * max(world // parts, 1) * integer(row, "pp", 1)
    return integer(row, "gbs")


def _config(row: Row, problem: TuningProblem) -> tuple[TrainingConfig, tuple[str, ...]]:
    tensor, pipeline, context = integer(row, "tp"), integer(row, "pp"), integer(row, "cp", 1) or 1
    schedule, chunks, notes = _pipeline(row, problem.model, pipeline)
    parts = tensor * pipeline * context
    if parts == 0 or problem.world_size % parts:
        raise Unusable(f"n_gpus {problem.world_size} is not a multiple of tp·pp·cp {parts}")
    micro, data = integer(row, "mbs"), problem.world_size // parts
    if micro == 0 or problem.global_batch_size % (micro * data):
        raise Unusable(f"gbs {problem.global_batch_size} is not a multiple of mbs·dp {micro * data}")
    dispatcher, dispatch_notes = dispatcher_of(row, problem)
    fields: dict[str, Any] = {
        "tensor_parallel_size": tensor,
        "pipeline_parallel_size": pipeline,
        "virtual_pipeline_parallel_size": chunks,
        "context_parallel_size": context,
        "expert_parallel_size": integer(row, "ep", 1) or 1 if problem.model.is_moe else 1,
        "micro_batch_size": micro,
        "pipeline_schedule": schedule,
        "pipeline_layout": balanced_layout(
            problem.model.num_layers, problem.model.num_multi_token_prediction_layers, pipeline, chunks
        ),
        "precision": problem.precision,
        "optimizer": optimizer_of(row),
        "moe_dispatcher": dispatcher,
        "cross_entropy_fusion": text(row, "loss_fusion") != "no",
        "sync_free_stage": integer(row, "sync_free_stage", 0),
    }
    try:
        return TrainingConfig.parse(fields, "row"), (*notes, *dispatch_notes)
    except InvalidInput as error:
        raise Unusable(str(error)) from None


def _pipeline(row: Row, model: ModelArchitecture, pipeline: int) -> tuple[str, int, tuple[str, ...]]:
    """Return schedule and chunks per rank with notes on what was not stated."""
    schedule, stated = _known(row, "schedule", _SCHEDULES), integer(row, "vpp", 0)
    notes: tuple[str, ...] = ()
    if not schedule:
        schedule = "interleaved-1f1b" if stated > 1 else "1f1b"
        notes = (f"schedule not stated: {schedule}",) if pipeline > 1 else ()
    if pipeline == 1:
        return "1f1b", 1, notes
    if schedule in ("zero-bubble-v", "v-half", "v-min"):
        return schedule, 2, notes
    if schedule != "interleaved-1f1b":
        return schedule, 1, notes
    if stated <= 1:
        stated = single_layer_chunks(model.num_layers, pipeline)
        notes = (*notes, f"vpp not stated: {stated}, one layer a chunk")
    return (schedule, stated, notes) if stated > 1 else ("1f1b", 1, notes)


def _with_recomputation(
    row: Row, problem: TuningProblem, config: TrainingConfig, software: MemorySoftware
) -> tuple[TrainingConfig, tuple[str, ...]]:
    """Add the stated recomputation; where none is stated, the least that fits, since the configuration ran."""
    stated = text(row, "recompute")
    fields, notes = recomputation_of(stated, problem.model)
    chosen = TrainingConfig.parse(config.model_dump() | fields, "row")
    if stated:
        return chosen, notes
    modules = default_recompute_modules(problem.model)
    selective = {"recompute_granularity": "selective", "recompute_modules": modules}
    for more in ({}, selective, {"recompute_granularity": "full"}):
        candidate = TrainingConfig.parse(config.model_dump() | more, "row")
        if fit(problem, estimate_memory(problem, ConfigBatch.of([candidate]), software=software)).fits[0]:
            name = more.get("recompute_granularity", "none")
            return candidate, notes if not more else (f"recomputation not stated: {name}, the least that fits",)
    return chosen, notes


def _step_seconds(row: Row, problem: TuningProblem) -> tuple[float | None, tuple[str, ...]]:
    seconds, speed, flops = (number(row, name) for name in ("step_time_s", "tokens_s_gpu", "tflops_gpu"))
    if seconds:
        return seconds, ()
    if speed:
        return problem.tokens_per_step / (speed * problem.world_size), ("step time from tokens/s/GPU",)
    if flops:
        counted = model_flops_per_step(problem)
        note = "step time from TFLOP/s, causal attention, without recomputation"
        return counted / (flops * 1e12 * problem.world_size), (note,)
    return None, ()
