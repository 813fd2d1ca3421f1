"""The configuration to beat: completed where the person left fields out, chosen where there is none. Called by
`acceptance`; pure.

The default is what a careful person starts with: no recomputation if it can be had, the fewest ranks per copy of the
model, as little tensor splitting as possible, experts spread over the node, one sequence per micro batch, 1f1b.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from tunewright.adapters.kube.batch_sizes import BATCH_RULE, batch_problem
from tunewright.adapters.kube.problem_reader import NotAccepted
from tunewright.domain.config_batch import ConfigBatch
from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import (
    EVEN_LAYOUT,
    RECOMPUTE_GRANULARITIES,
    SHORTER_EDGES_LAYOUT,
    TrainingConfig,
    default_recompute_modules,
)
from tunewright.errors import DoesNotFit, IllegalConfig, InvalidInput, Problem
from tunewright.legality.verdicts import Verdicts, judge
from tunewright.memory.estimate import estimate
from tunewright.memory.fit import FitVerdict, fit

_MAX_PIPELINE = 64
_WORKLOAD_RULES: Mapping[str, str] = {
    "precision-is-in-device": "spec.workload.precision",
    "precision-is-in-builtin-runner": "spec.workload.precision",
    "sequence-fits-position-table": "spec.workload.sequenceLength",
    "attention-sinks-are-available": "spec.workload.model",
    "prediction-layers-are-available": "spec.workload.model",
}
"""Rules that read nothing of a configuration but its precision, and the field to change."""
_PRECISION_RULES: Mapping[str, str] = {
    "fp8-widths-are-whole-blocks": "spec.workload.precision",
    "fp8-rows-are-whole-blocks": "spec.workload.precision",
}
"""The same where every usual configuration breaks them."""


def checked_baseline(problem: TuningProblem, given: Mapping[str, Any]) -> TrainingConfig:
    """Return the baseline; raise `IllegalConfig` with every rule, or `DoesNotFit` with the bytes of each kind.

    What no configuration could heal is a fault of the workload: `NotAccepted`.
    """
    if not given:
        return default_baseline(problem)
    config = completed(problem, given)
    batch = ConfigBatch.of([config])
    verdicts = judge(problem, batch)
    _check_workload(
        verdicts, {rule: path for rule, path in _WORKLOAD_RULES.items() if path.split(".")[-1] not in given}
    )
    if not verdicts.legal[0]:
        raise IllegalConfig(verdicts.violations(0), "spec.baseline")
    _check_fits(problem, batch)
    return config


def unchecked_baseline(problem: TuningProblem, given: Mapping[str, Any]) -> TrainingConfig:
    """Return the given or the default baseline, and without either a configuration that is not split at all."""
    if given:
        return completed(problem, given)
    try:
        return default_baseline(problem)
    except NotAccepted:
        return completed(problem, {})


def completed(problem: TuningProblem, given: Mapping[str, Any]) -> TrainingConfig:
    """Fill the fields that follow from the problem: precision, optimizer, and the modules of selective recomputation.

    torchtitan's `selective` works on operations and names no modules.
    """
    fields = {"precision": problem.precision, "optimizer": problem.usual_optimizer, **given}
    selective = fields.get("recompute_granularity") == "selective" and problem.backend != "torchtitan"
    if selective and not fields.get("recompute_modules"):
        fields["recompute_modules"] = default_recompute_modules(problem.model)
    return TrainingConfig.parse(fields, "spec.baseline")


def default_baseline(problem: TuningProblem) -> TrainingConfig:
    """Return the first legal, fitting candidate in order of preference; raise `NotAccepted` where there is none."""
    candidates = sorted(_candidates(problem), key=lambda config: _preference(problem, config))
    batch = ConfigBatch.of(candidates)
    verdicts = judge(problem, batch)
    if not verdicts.legal.any():
        _check_workload(verdicts, {**_WORKLOAD_RULES, **_PRECISION_RULES})
        raise _no_legal(problem, batch, verdicts)
    legal = batch.take(verdicts.legal)
    verdict = fit(problem, estimate(problem, legal))
    if not verdict.fits.any():
        raise _no_room(problem, verdict)
    roomy = verdict.fits & ~verdict.tight
    return legal.config(int(np.flatnonzero(roomy if roomy.any() else verdict.fits)[0]))


def _candidates(problem: TuningProblem) -> Iterable[TrainingConfig]:
    model, world = problem.model, problem.world_size
    experts = model.experts.num_experts if model.experts else 1
    for tensor in _powers_of_two(problem.cluster.gpus_per_node):
        for pipeline in _divisors(world, min(_MAX_PIPELINE, model.num_layers)):
            layout = EVEN_LAYOUT if model.num_layers % pipeline == 0 else SHORTER_EDGES_LAYOUT
            for expert in _divisors(experts, world):
                for granularity in RECOMPUTE_GRANULARITIES:
                    yield completed(
                        problem,
                        {
                            "tensor_parallel_size": tensor,
                            "pipeline_parallel_size": pipeline,
                            "expert_parallel_size": expert,
                            "pipeline_layout": layout,
                            "recompute_granularity": granularity,
                        },
                    )


def _preference(problem: TuningProblem, config: TrainingConfig) -> tuple[int, ...]:
    expert = config.expert_parallel_size
    beyond_node = expert > problem.cluster.gpus_per_node
    return (
        RECOMPUTE_GRANULARITIES.index(config.recompute_granularity),
        config.tensor_parallel_size * config.pipeline_parallel_size,
        config.tensor_parallel_size,
        int(beyond_node),
        expert if beyond_node else -expert,
    )


def _check_fits(problem: TuningProblem, batch: ConfigBatch) -> None:
    verdict = fit(problem, estimate(problem, batch))
    if verdict.fits[0]:
        return
    items = verdict.estimate.kinds_of(0, int(verdict.estimate.worst_rank[0]))
    raise DoesNotFit(f"spec.baseline: {verdict.message(0)}", items)


def _check_workload(verdicts: Verdicts, rules: Mapping[str, str]) -> None:
    """Raise `NotAccepted` naming the workload's field for every one of `rules` that all rows break."""
    findings = [(path, verdicts.findings[name]) for name, path in rules.items() if name in verdicts.findings]
    messages = [(path, finding.message(0)) for path, finding in findings if finding.violated.all()]
    if messages:
        raise NotAccepted("Illegal", [_workload_problem(path, message) for path, message in messages])


def _workload_problem(path: str, message: str) -> Problem:
    """A rule's message is field, value, colon, remedy."""
    said, _, remedy = message.partition(": ")
    return Problem(path, said.partition(" ")[2], remedy)


def _no_legal(problem: TuningProblem, batch: ConfigBatch, verdicts: Verdicts) -> InvalidInput:
    others = [finding.violated for name, finding in verdicts.findings.items() if name != BATCH_RULE]
    only_batch = ~np.logical_or.reduce(others)
    if only_batch.any():
        return NotAccepted("Illegal", [batch_problem(problem, batch, only_batch)])
    ranked = sorted(verdicts.by_rule.items(), key=lambda item: (-item[1], item[0]))
    most = ", ".join(f"{rule} ({count})" for rule, count in ranked[:3])
    remedy = f"none of {verdicts.rows} usual configurations is legal; most broken: {most}: give a baseline"
    return NotAccepted("Illegal", [Problem("spec.baseline", None, remedy)])


def _no_room(problem: TuningProblem, verdict: FitVerdict) -> InvalidInput:
    smallest = int(verdict.estimate.allocated_bytes.argmin())
    nodes = f"{problem.cluster.nodes} node(s) of {problem.cluster.gpus_per_node} {problem.cluster.accelerator.name}"
    remedy = (
        f"is too small for {problem.model.name}: even the least demanding usual configuration"
        f" {verdict.message(smallest)}; or use more nodes"
    )
    return NotAccepted("Illegal", [Problem("spec.cluster", nodes, remedy)])


def _powers_of_two(limit: int) -> list[int]:
    return [1 << exponent for exponent in range(limit.bit_length()) if 1 << exponent <= limit]


def _divisors(number: int, limit: int) -> list[int]:
    return [part for part in range(1, min(number, limit) + 1) if number % part == 0]
