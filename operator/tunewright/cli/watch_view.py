"""What `tunewright watch` shows of a TuningRun: its status as a picture for terminals, and as one line. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from tunewright.cli.tables import table, titled
from tunewright.domain.axes import describe
from tunewright.domain.training_config import TrainingConfig
from tunewright.errors import InvalidInput
from tunewright.units import format_seconds

Document = Mapping[str, Any]

_STYLES = {"Succeeded": "bold green", "Failed": "bold red", "Stopped": "bold yellow", "Suspended": "bold yellow"}
_GOOD = {"Accepted": "True", "CapacityAvailable": "True"}
"""Conditions that people need to hear of when they are anything else."""


def run_line(document: Document) -> str:
    """Return state, trials and answer in one line."""
    status = document.get("status") or {}
    trials = (status.get("trials") or {}).get("summary", "")
    parts = [status.get("state", "not seen by an operator yet"), f"trials {trials}" if trials else ""]
    return ": ".join(part for part in (*parts, status.get("answer", "")) if part)


def run_picture(document: Document) -> RenderableType:
    """Return the whole status, at most 100 columns wide and one screen long."""
    status = document.get("status") or {}
    return Group(*_parts(document, status))


def _parts(document: Document, status: Document) -> Iterator[RenderableType]:
    metadata, state = document["metadata"], status.get("state", "not seen by an operator yet")
    title = Text(f"{metadata['namespace']}/{metadata['name']}  ", style="bold")
    yield title.append(state, style=_STYLES.get(state, "bold cyan"))
    yield Text(status.get("answer", ""))
    yield from _warnings(status.get("conditions") or ())
    if best := status.get("best"):
        yield titled("Best so far, tokens/s/GPU", _best(best))
    if axes := status.get("axes"):
        yield titled("What each setting does to the baseline, %", _rows((row["axis"], row["effects"]) for row in axes))
    if recent := status.get("recentTrials"):
        yield titled("Latest trials", _recent(recent))
    if progress := list(_progress(status)):
        yield titled("So far", _rows(progress))


def _warnings(conditions: Sequence[Document]) -> Iterator[RenderableType]:
    for one in conditions:
        if one["type"] in _GOOD and one["status"] not in (_GOOD[one["type"]], "Unknown"):
            yield Text(f"{one['type']}={one['status']} {one['reason']}: {one['message']}", style="yellow")


def _best(best: Document) -> RenderableType:
    numbers = ("tokens/s/GPU", "range", "over baseline", "memory")
    made = table("", "trial", *numbers, "configuration", right=numbers)
    for kind in ("measured", "projected"):
        if one := best.get(kind):
            made.add_row(kind, one["trial"], *_figures(one), Text(_configuration(one["configuration"])))
    return made


def _figures(one: Document) -> Iterator[str]:
    gain = (one.get("improvementPercent") or {}).get("overBaseline")
    memory = one.get("memoryPercent")
    yield f"{one['tokensPerSecondPerGPU']:,}"
    yield f"{one['intervalLow']:,}–{one['intervalHigh']:,}"
    yield "-" if gain is None else f"{float(gain):+.1f} %"
    yield "-" if memory is None else f"{float(memory):.0f} %"


def _configuration(values: Document) -> str:
    """Return the short form; the long one where another version of the operator knows axes that this one does not."""
    try:
        return describe(TrainingConfig.parse(values))
    except InvalidInput:
        return ", ".join(f"{name} {value}" for name, value in values.items())


def _recent(trials: Sequence[Document]) -> RenderableType:
    made = table("trial", "attempt", "kind", "phase", "node", right=("attempt",))
    for one in trials:
        made.add_row(one["trial"], str(one["attempt"]), one["kind"], Text(one["phase"]), Text(one.get("node", "")))
    return made


def _progress(status: Document) -> Iterator[tuple[str, str]]:
    if trials := status.get("trials"):
        names = ("filtered", "pruned", "reused", "running", "projected", "measured", "failed")
        counts = ", ".join(f"{trials[name]} {name}" for name in names if trials.get(name))
        yield "trials", trials["summary"] + (f": {counts}" if counts else "")
    spent, forecast = status.get("spent"), status.get("forecast") or {}
    if spent:
        yield "GPU hours", _of(spent["gpuHours"], forecast.get("gpuHours"), f"{spent['gpuHoursSaved']} saved")
        told = format_seconds(forecast["durationSeconds"]) if "durationSeconds" in forecast else None
        yield "time", _of(format_seconds(spent["durationSeconds"]), told, f"{spent['queuedSeconds']} s in queues")
        if spent["llmCalls"]:
            yield "LLM", f"{spent['llmCalls']} calls, {spent['llmTokens']:,} tokens, {spent['llmCostUSD']} USD"
    if (bias := status.get("bias")) is not None:
        yield "bias", f"{float(bias['percent']):+.1f} % ({bias['samples']} samples)"


def _of(spent: str, forecast: str | None, more: str) -> str:
    return f"{spent} of {forecast} forecast, {more}" if forecast is not None else f"{spent}, {more}"


def _rows(rows: Iterator[tuple[str, str]] | Sequence[tuple[str, str]]) -> RenderableType:
    made = table("", "")
    made.show_header = False
    for name, text in rows:
        made.add_row(Text(name), Text(text))
    return made
