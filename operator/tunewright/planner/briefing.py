"""What the advisor is told: plain JSON made from the snapshot. Called by explore and by the engine.

Figures, names and reasons go in; text that came from outside (a model's name, what an LLM proposed) is cut and made
printable first. Lists are cut too, so that the prompt of a long run stays affordable.
"""

from typing import Any

from tunewright.domain.axes import AXES, describe
from tunewright.domain.training_config import TrainingConfig
from tunewright.domain.value import camel_case
from tunewright.planner.axis_table import AxisRow, axis_table
from tunewright.planner.candidates import Candidate
from tunewright.planner.decisions import Judge
from tunewright.planner.hypotheses import tracked_hypotheses
from tunewright.planner.moves import bottleneck, moves_json, resource_shares, single_moves
from tunewright.planner.observations import surrogate_of
from tunewright.planner.share import llm_share
from tunewright.planner.snapshot import Snapshot
from tunewright.planner.sweep import searched_axes
from tunewright.planner.turn import Turn

MOST_CANDIDATES = 8
MOST_HISTORY = 30
MOST_REJECTIONS = 40
MOST_HYPOTHESES = 20
_LONGEST_REASON = 300
_LONGEST_NAME = 128


def briefing(snapshot: Snapshot) -> dict[str, Any]:
    """Return the context of a question. `axes` maps each axis that may be changed to its allowed values."""
    turn = Turn(snapshot)
    return {
        "problem": _problem(snapshot),
        "incumbent": _incumbent(turn),
        "axes": allowed_values(snapshot),
        "axisTable": {row.axis: row.effects for row in _axis_rows(turn)},
        "moves": _moves(turn),
        "surrogateCandidates": _surrogate_candidates(turn),
        "history": _history(turn),
        "failedTrials": _failed(turn),
        "rejections": _rejections(turn),
        "hypotheses": _hypotheses(turn),
        "yourShare": llm_share(snapshot.settings, snapshot.state, turn.evaluation).reason,
        "trialsLeft": max(0, snapshot.settings.budget.max_trials - len(snapshot.state.profiles)),
    }


def allowed_values(snapshot: Snapshot) -> dict[str, list[Any]]:
    """Return what each searched axis may be, in camelCase; lists of modules as text."""
    fields = searched_axes(snapshot.space, snapshot.settings)
    return {camel_case(name): [_plain(value) for value in snapshot.space.values(name)] for name in fields}


def _problem(snapshot: Snapshot) -> dict[str, Any]:
    problem, cluster = snapshot.problem, snapshot.problem.cluster
    accelerator = cluster.accelerator
    return {
        "model": {**problem.model.to_json(), "name": _text(problem.model.name, _LONGEST_NAME)},
        "sequenceLength": problem.sequence_length,
        "globalBatchSize": problem.global_batch_size,
        "precision": problem.precision,
        "backend": problem.backend,
        "hardware": {
            "accelerator": accelerator.name,
            "nodes": cluster.nodes,
            "gpusPerNode": cluster.gpus_per_node,
            "memoryGiB": round(accelerator.hbm_capacity_bytes / 2**30, 1),
            "peakFlopsPerSecond": accelerator.peak_flops_per_second.get(problem.precision),
            "memoryBytesPerSecond": accelerator.hbm_bytes_per_second,
            "scaleUpBytesPerSecond": accelerator.scale_up_bytes_per_second,
            "scaleOutBytesPerSecond": cluster.network.bytes_per_second_per_gpu,
        },
        "space": snapshot.space.counts.to_json(),
    }


def _incumbent(turn: Turn) -> dict[str, Any]:
    """Return the best so far with what its step waits for."""
    best = turn.evaluation.best_projected
    if best is None or best.projection is None:
        return {"configuration": _changes(turn.snapshot.settings.baseline), "known": False}
    shares, row = resource_shares(best.projection.parts), best.row
    return {
        "configuration": _changes(best.config),
        "projectedTokensPerSecondPerGPU": _figure(best.projected),
        "bottleneck": bottleneck(shares),
        "stepTimePercent": {name: round(100 * share, 1) for name, share in shares.items()},
        "bubblePercent": round(100 * best.projection.bubble_fraction, 1),
        "memoryPercent": None if row is None else round(turn.snapshot.space.memory_percent(row), 1),
        "overBaselinePercent": _over_baseline(turn, best),
    }


def _over_baseline(turn: Turn, best: Candidate) -> float | None:
    baseline = turn.evaluation.baseline
    if baseline is None or not baseline.projected or best.projected is None:
        return None
    return round(100 * (best.projected / baseline.projected - 1), 1)


def _moves(turn: Turn) -> list[dict[str, Any]]:
    """Return what each change of one axis would do to the incumbent, by the analytic model."""
    snapshot, best = turn.snapshot, turn.evaluation.best_projected
    incumbent = best.config if best else snapshot.settings.baseline
    return moves_json(snapshot.space, single_moves(snapshot.space, snapshot.settings, incumbent))


def _axis_rows(turn: Turn) -> tuple[AxisRow, ...]:
    snapshot = turn.snapshot
    return axis_table(snapshot.settings, snapshot.space, snapshot.state, turn.evaluation)


def _surrogate_candidates(turn: Turn) -> list[dict[str, Any]]:
    rows = turn.snapshot.space.ranking
    rows = rows[turn.open_rows()[rows]]
    if not len(rows):
        return []
    return [
        {
            "configuration": describe(turn.snapshot.space.config(item.row)),
            "meanTokensPerSecondPerGPU": _figure(item.mean_tokens_per_second_per_gpu),
            "sigmaPercent": round(100 * item.sigma, 1),
        }
        for item in surrogate_of(turn).score(rows)[:MOST_CANDIDATES]
    ]


def _history(turn: Turn) -> list[dict[str, Any]]:
    return [
        {"configuration": describe(item.config), "projectedTokensPerSecondPerGPU": _figure(item.projected)}
        for item in turn.evaluation.by_projection[:MOST_HISTORY]
    ]


def _failed(turn: Turn) -> list[dict[str, str]]:
    failed = turn.snapshot.state.failed[-MOST_REJECTIONS:]
    return [{"configuration": describe(trial.config), "failure": str(trial.failure)} for trial in failed]


def _rejections(turn: Turn) -> list[dict[str, str]]:
    """Return each rejected configuration once, with what was said last."""
    rejected = [_rejection(judge) for judge in turn.snapshot.state.judged if judge.verdict != "reused"]
    last = {(item["configuration"], item["verdict"]): item for item in rejected}
    return list(last.values())[-MOST_REJECTIONS:]


def _rejection(judge: Judge) -> dict[str, str]:
    shown = describe(judge.config) if judge.config else "unreadable"
    return {"configuration": shown, "verdict": judge.verdict, "reason": _text(judge.message, _LONGEST_REASON)}


def _hypotheses(turn: Turn) -> list[dict[str, Any]]:
    """Return what became of earlier hypotheses."""
    tracked = tracked_hypotheses(turn.snapshot.state, turn.evaluation)[-MOST_HYPOTHESES:]
    return [
        {
            "axes": item.axes,
            "mechanism": _text(item.mechanism, _LONGEST_REASON),
            "expectedGainPercent": item.expected_gain_percent,
            "status": item.status,
            "outcome": item.reason,
        }
        for item in tracked
    ]


def _text(text: str, limit: int) -> str:
    """Make text of foreign origin one printable line of limited length."""
    line = "".join(letter if letter.isprintable() else " " for letter in text[:limit])
    return line if len(text) <= limit else line[: limit - 1] + "…"


def _changes(config: TrainingConfig) -> dict[str, Any]:
    return {camel_case(axis.field): _plain(getattr(config, axis.field)) for axis in AXES}


def _plain(value: object) -> Any:  # noqa: ANN401 - JSON
    return "+".join(value) if isinstance(value, tuple) else value


def _figure(value: float | None) -> float | None:
    """Four significant digits: more would only suggest an accuracy that is not there."""
    return None if value is None else float(f"{value:.4g}")
