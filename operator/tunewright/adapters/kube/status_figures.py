"""The figures of the status: whole numbers, or decimals as text, since a custom resource has no floats. Pure."""

from collections.abc import Sequence
from typing import Any

from tunewright.domain.axes import AXES
from tunewright.domain.training_config import TrainingConfig
from tunewright.domain.value import camel_case
from tunewright.planner.axis_table import AxisRow
from tunewright.planner.figures import BestMeasured, BestProjected, BiasFigure, Improvement
from tunewright.planner.summary import Counters, Summary

Document = dict[str, Any]

_ALWAYS_SHOWN = frozenset({"tensor_parallel_size", "pipeline_parallel_size", "micro_batch_size"})
_MAX_MESSAGE = 1000


def costs_documents(summary: Summary) -> tuple[Document, Document]:
    """Return `forecast` and `spent`."""
    expected, spent = summary.forecast, summary.spent
    forecast = {
        "trials": expected.trials,
        "validations": expected.validations,
        "gpuHours": _decimal(expected.gpu_hours, 2),
        "durationSeconds": round(expected.duration_seconds),
        "llmCalls": expected.llm_calls,
        **_present("llmCostUSD", expected.llm_cost_usd, 2),
    }
    used = {
        "gpuHours": _decimal(spent.gpu_hours, 2),
        "durationSeconds": round(spent.duration_seconds),
        "queuedSeconds": round(spent.queued_seconds),
        "llmCalls": spent.llm_calls,
        "llmTokens": spent.llm_tokens,
        "llmCostUSD": _decimal(spent.llm_cost_usd, 4),
        "gpuHoursSaved": _decimal(spent.gpu_hours_saved, 2),
    }
    return forecast, used


def trials_document(counters: Counters) -> Document:
    """Return the counters."""
    plain = ("proposed", "filtered", "pruned", "reused", "rejected", "running", "projected", "measured", "failed")
    document: Document = {
        "summary": f"{counters.profiles}/{counters.max_profiles}",
        **{name: getattr(counters, name) for name in plain},
    }
    if counters.failed_by_class:
        document["failedByClass"] = [
            {"class": entry.failure, "count": entry.count} for entry in counters.failed_by_class
        ]
    last = counters.last_failure
    if last is not None:
        document["lastFailure"] = {
            "trial": last.trial,
            "class": last.failure,
            "node": last.node,
            "message": last.message[:_MAX_MESSAGE],
        }
    return document


def best_document(summary: Summary) -> Document:
    """Return the best of each kind, as far as there is one."""
    document: Document = {}
    if summary.best_projected is not None:
        document["projected"] = _best(summary.best_projected)
    measured = summary.best_measured
    if measured is not None:
        document["measured"] = {**_best(measured), "nodes": measured.nodes, "repeats": measured.repeats}
    return document


def bias_document(bias: BiasFigure | None) -> Document | None:
    """Return the bias, once something is measured."""
    if bias is None:
        return None
    document: Document = {"percent": _decimal(bias.percent, 1), "samples": bias.samples}
    if bias.low_percent is not None and bias.high_percent is not None:
        document["intervalPercent"] = {"low": _decimal(bias.low_percent, 1), "high": _decimal(bias.high_percent, 1)}
    return document


def axes_document(rows: Sequence[AxisRow]) -> list[Document]:
    """Return one line an axis."""
    return [{"axis": row.axis, "effects": row.effects[:_MAX_MESSAGE]} for row in rows]


def configuration_document(config: TrainingConfig) -> Document:
    """Return the degrees that people always look at, and whatever differs from the defaults."""
    default = TrainingConfig()
    shown = {
        axis.field: getattr(config, axis.field)
        for axis in AXES
        if axis.field in _ALWAYS_SHOWN or getattr(config, axis.field) != getattr(default, axis.field)
    }
    return {camel_case(field): list(value) if isinstance(value, tuple) else value for field, value in shown.items()}


def _best(best: BestProjected | BestMeasured) -> Document:
    document: Document = {
        "trial": best.trial,
        "tokensPerSecondPerGPU": round(best.tokens_per_second_per_gpu),
        "intervalLow": round(best.interval_low),
        "intervalHigh": round(best.interval_high),
        **_present("memoryPercent", best.memory_percent, 1),
        "configuration": configuration_document(best.configuration),
    }
    gains = _gains(best.improvement_percent)
    if gains:
        document["improvementPercent"] = gains
    if best.flags:
        document["flags"] = list(best.flags)
    return document


def _gains(improvement: Improvement) -> Document:
    return {
        **_present("overReference", improvement.over_reference, 1),
        **_present("overBaseline", improvement.over_baseline, 1),
    }


def _present(name: str, value: float | None, digits: int) -> Document:
    return {} if value is None else {name: _decimal(value, digits)}


def _decimal(value: float, digits: int) -> str:
    return f"{value:.{digits}f}"
