"""`tunewright plan FILE`: the whole legal space, filtered and ranked, without any hardware."""

import gc
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tunewright.adapters.kube.acceptance import Accepted
from tunewright.cli.arguments import refuse_twice
from tunewright.cli.console import output, print_json
from tunewright.cli.loading import load
from tunewright.cli.tables import candidates_table, node_table, parts_table
from tunewright.domain.axes import describe
from tunewright.domain.hardware import MOST_NODES
from tunewright.domain.value import whole_number
from tunewright.errors import InvalidInput
from tunewright.planner.forecast import Forecast, forecast
from tunewright.search.space import Space, build_space
from tunewright.units import format_seconds

_MOST_PLANS = 64


@dataclass(frozen=True)
class Plan:
    """An accepted file, whose space is ranked, with its forecast. `elapsed_seconds` does not count imports."""

    accepted: Accepted
    forecast: Forecast
    elapsed_seconds: float


def run_plan(path: Path, model_config: Path | None = None, *, json_output: bool, nodes: str, top: int) -> None:
    """Print the plan of a file, or a table over node counts."""
    gc.disable()  # a plan makes no cycles, and a collection in its middle looks at every operation of every schedule
    started = time.perf_counter()
    accepted = load(path, model_config)
    if nodes:
        plans = [_plan_on_nodes(accepted, count) for count in _counts(nodes)]
        _print_side_by_side(plans, json_output=json_output, top=top)
        return
    plan = make_plan(accepted, started)
    if json_output:
        print_json(plan_document(plan, top))
    else:
        _print_plan(plan, top)


def make_plan(accepted: Accepted, started: float) -> Plan:
    """Rank the accepted space. `started` is the `time.perf_counter()` from which the plan's time counts."""
    space = accepted.space
    expected = forecast(accepted.problem, accepted.settings, space)
    _ = space.ranking, space.counts
    return Plan(accepted, expected, time.perf_counter() - started)


def on_nodes(accepted: Accepted, nodes: int) -> Accepted:
    """Return the same request on another number of nodes, with the same global batch and the space of that cluster."""
    cluster = accepted.problem.cluster.model_copy(update={"nodes": nodes})
    problem = accepted.problem.model_copy(update={"cluster": cluster})
    validation = accepted.settings.validation.model_copy(update={"nodes": nodes})
    settings = accepted.settings.model_copy(update={"validation": validation})
    space = accepted.space if problem == accepted.problem else build_space(problem, settings)
    return replace(accepted, problem=problem, settings=settings, space=space)


def _plan_on_nodes(accepted: Accepted, nodes: int) -> Plan:
    """Plan for another number of nodes. For the file's own, whose space is there, only the forecast takes time."""
    started = time.perf_counter()
    return make_plan(on_nodes(accepted, nodes), started)


def plan_document(plan: Plan, top: int) -> dict[str, Any]:
    """Return the plan as JSON."""
    space = plan.accepted.space
    return {
        "run": plan.accepted.document.metadata.name,
        "nodes": plan.accepted.problem.cluster.nodes,
        "space": space.counts.to_json(),
        "elapsedSeconds": round(plan.elapsed_seconds, 4),
        "candidates": [candidate_document(space, int(row)) for row in space.ranking[:top]],
        "forecast": plan.forecast.to_json(),
    }


def candidate_document(space: Space, row: int) -> dict[str, Any]:
    """Return one ranked candidate as JSON."""
    return {
        "config": space.config(row).to_json(),
        "estimated": {
            "tokensPerSecondPerGPU": round(float(space.tokens_per_second_per_gpu[row]), 1),
            "stepSeconds": float(space.step_seconds[row]),
            "parts": {name: float(seconds[row]) for name, seconds in space.parts.items()},
        },
        "memory": {
            "allocatedBytes": int(space.allocated_bytes[row]),
            "percent": round(space.memory_percent(row), 1),
            "tight": bool(space.tight[row]),
        },
    }


def _print_plan(plan: Plan, top: int) -> None:
    space, problem = plan.accepted.space, plan.accepted.problem
    counts = space.counts
    cluster = problem.cluster
    output.print(
        f"{problem.model.name} on {cluster.nodes} × {cluster.gpus_per_node} {cluster.accelerator.name}, "
        f"{problem.precision}, sequence {problem.sequence_length:,}, global batch {problem.global_batch_size:,}"
    )
    output.print(
        f"{counts.legal:,} legal configurations: {counts.fitting:,} fit ({counts.tight:,} tight), "
        f"{counts.filtered:,} filtered by memory; {format_seconds(plan.elapsed_seconds)}"
    )
    if not counts.fitting:
        raise InvalidInput.of(
            "space", counts.legal, "no legal configuration fits in memory: use more nodes or recompute"
        )
    output.print(candidates_table(space, [int(row) for row in space.ranking[:top]]))
    best = int(space.ranking[0])
    output.print(parts_table(space, best, f"Why {describe(space.config(best))}: one step, estimated"))
    _print_forecast(plan.forecast)


def _print_forecast(expected: Forecast) -> None:
    cost = f", up to ${expected.llm_cost_usd:.2f} for the LLM" if expected.llm_cost_usd else ""
    output.print(
        f"Forecast of the search: {expected.trials} trials, {expected.validations} validations, "
        f"{expected.gpu_hours:.1f} GPU hours, "
        f"{format_seconds(expected.duration_seconds)}{cost}"
    )


def _print_side_by_side(plans: list[Plan], *, json_output: bool, top: int) -> None:
    if json_output:
        print_json({"plans": [plan_document(plan, top) for plan in plans]})
    else:
        output.print(node_table([(plan.accepted.problem.cluster.nodes, plan.accepted.space) for plan in plans]))


def _counts(text: str) -> list[int]:
    parts = text.split(",")[: _MOST_PLANS + 1]
    counts = [count for part in parts if (count := whole_number(part, least=1, most=MOST_NODES)) is not None]
    if len(counts) != len(parts) or len(counts) > _MOST_PLANS:
        remedy = f"must be at most {_MOST_PLANS} node counts from 1 to {MOST_NODES}, such as 4,8,16"
        raise InvalidInput.of("--nodes", text, remedy)
    refuse_twice("--nodes", counts)
    return counts
