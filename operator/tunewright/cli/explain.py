"""`tunewright explain FILE --set AXIS=VALUE`: one configuration, itemised."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tunewright import legality
from tunewright.cli.console import output, print_json
from tunewright.cli.loading import load_candidate
from tunewright.cli.outputs import write_text
from tunewright.cli.tables import memory_table, rules_table, step_table
from tunewright.domain.axes import axis_named, describe, parse_value
from tunewright.domain.config_batch import ConfigBatch
from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import TrainingConfig, default_recompute_modules
from tunewright.domain.value import camel_case
from tunewright.errors import InvalidInput
from tunewright.memory.estimate import estimate as estimate_memory
from tunewright.memory.fit import fit
from tunewright.performance.step import estimate as estimate_step
from tunewright.pictures.timeline import timeline_of, timeline_picture
from tunewright.report.trace import trace_of


def run_explain(
    path: Path,
    changes: Sequence[str],
    *,
    json_output: bool,
    timeline: Path | None = None,
    model_config: Path | None = None,
) -> None:
    """Print every rule with its verdict, memory by stage and kind, and the parts of the step."""
    problem, baseline = load_candidate(path, model_config)
    config = changed(problem, baseline, changes)
    document = explain_document(problem, config)
    if timeline is not None:
        _draw(timeline, problem, config, legal=document["legal"])
    if json_output:
        print_json(document)
        return
    output.print(describe(config))
    output.print(rules_table(document["rules"]))
    if not document["legal"]:
        output.print("Illegal: memory and step time of a job that cannot start are not shown.")
        return
    output.print(memory_table(document["memory"]["ranks"]))
    output.print(document["memory"]["verdict"])
    output.print(step_table(document["estimated"]))


def _draw(path: Path, problem: TuningProblem, config: TrainingConfig, *, legal: bool) -> None:
    if not legal:
        raise InvalidInput.of("--timeline", str(path), "an illegal configuration has no timeline: leave it out")
    if path.suffix == ".json":
        write_text(path, json.dumps(trace_of(problem, [("configuration", config)])) + "\n", "--timeline")
        return
    events, all_of_them = timeline_of(problem, config)
    drawn = 1 + max(event.micro_batch for event in events)
    title = f"{problem.model.name}, {describe(config)}: {drawn} of {all_of_them} micro batches"
    write_text(path, timeline_picture(events, title), "--timeline")


def changed(problem: TuningProblem, baseline: TrainingConfig, changes: Sequence[str]) -> TrainingConfig:
    """Apply `AXIS=VALUE` texts; `recompute=selective` without modules takes the model's default ones."""
    values: dict[str, Any] = {}
    for text in changes:
        name, separator, value = text.partition("=")
        if not separator:
            raise InvalidInput.of("--set", text, "must be AXIS=VALUE, such as tensor=2")
        axis = axis_named(name.strip())
        if axis.field in values:
            raise InvalidInput.of("--set", text, f"{camel_case(axis.field)} is given twice: remove one")
        values[axis.field] = parse_value(axis, value.strip())
    granularity = values.get("recompute_granularity", baseline.recompute_granularity)
    if granularity != "selective":
        values["recompute_modules"] = values.get("recompute_modules", ())
    elif not (values.get("recompute_modules") or baseline.recompute_modules):
        values["recompute_modules"] = default_recompute_modules(problem.model)
    return TrainingConfig.parse(baseline.model_dump() | values, "--set")


def explain_document(problem: TuningProblem, config: TrainingConfig) -> dict[str, Any]:
    """Return everything about one configuration as JSON; memory and step only where it is legal."""
    batch = ConfigBatch.of([config])
    rules = legality.explain(problem, batch)
    document: dict[str, Any] = {
        "config": config.to_json(),
        "legal": all(ok for _, ok, _ in rules),
        "rules": [{"rule": rule, "ok": ok, "message": message} for rule, ok, message in rules],
    }
    if not document["legal"]:
        return document
    memory = estimate_memory(problem, batch)
    verdict = fit(problem, memory)
    step = estimate_step(problem, batch)
    ranks = [
        {"rank": rank, **memory.kinds_of(0, rank), "allocated": items["allocated"], "device": items["device"]}
        for rank, items in enumerate(memory.breakdown(0))
    ]
    document["memory"] = {
        "fits": bool(verdict.fits[0]),
        "tight": bool(verdict.tight[0]),
        "verdict": verdict.message(0),
        "ranks": ranks,
        "items": memory.breakdown(0),
    }
    document["estimated"] = {
        "tokensPerSecondPerGPU": float(step.tokens_per_second_per_gpu[0]),
        "stepSeconds": float(step.step_seconds[0]),
        "bubbleFraction": float(step.bubble_fraction[0]),
        "modelFlopsUtilisation": float(step.model_flops_utilisation[0]),
        "hardwareFlopsUtilisation": float(step.hardware_flops_utilisation[0]),
        "parts": {name: float(seconds[0]) for name, seconds in step.parts.items()},
    }
    return document
