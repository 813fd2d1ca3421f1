"""The report: a whole run as one HTML page that needs nothing else. Called by `tunewright report`; pure.

Every text that people, LLMs or trials wrote is escaped by the template; only what this package draws goes in as it is.
The same records give the same bytes.
"""

from collections.abc import Iterator, Sequence
from importlib.resources import files
from typing import Any

from tunewright.backends import RENDERERS
from tunewright.domain.axes import describe
from tunewright.errors import TuningError
from tunewright.planner.hypotheses import TrackedHypothesis
from tunewright.planner.records import Record
from tunewright.planner.summary import CandidateRow
from tunewright.planner.trial import Trial
from tunewright.report.accuracy_chart import accuracy_chart
from tunewright.report.axis_chart import axis_chart, is_tall
from tunewright.report.belief import beliefs, bias_words
from tunewright.report.configurations_chart import configurations_chart, shown_axes
from tunewright.report.facts import (
    MOST_CANDIDATES,
    Fact,
    asked,
    changes,
    commands,
    costs,
    filtered,
    provenance,
    question,
)
from tunewright.report.memory_chart import memory_chart
from tunewright.report.pipelines import memory_pictures, timeline_pictures
from tunewright.report.progress_chart import progress_chart
from tunewright.report.step_chart import Breakdown, breakdowns, part_names, step_chart, words_of
from tunewright.report.story import Story, story_of
from tunewright.units import format_gib, format_seconds

MOST_COMPRESSED_BYTES = 700 * 1024
"""Of a page, so that it fits the ConfigMap of its run's result. A test holds the largest runs to it."""


def render_report(records: Sequence[Record]) -> str:
    """Return the page of a run, finished or not.

    Raises `LedgerError` when the records do not begin with a header, `TuningError` where the packages of the extra
    `report` are missing.
    """
    return render_story(story_of(records))


def render_story(story: Story) -> str:
    """Return the page of a run that is rebuilt already."""
    try:
        from jinja2 import Environment, StrictUndefined
        from markupsafe import Markup
    except ImportError:
        raise TuningError("a report needs jinja2: pip install 'tunewright[report]'") from None
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    view = _view(story)
    for name in ("charts", "memory_pictures", "timelines"):
        view[name] = _trusted(view[name], Markup)
    style = Markup(_resource("page.css"))
    return environment.from_string(_resource("page.html")).render(view, style=style)


def _trusted(drawn: Any, markup: Any) -> Any:  # noqa: ANN401 - nested values of a template
    """Mark SVG elements as markup; captions beside them stay text."""
    if isinstance(drawn, dict):
        return {key: markup(value) if str(value).startswith("<svg") else value for key, value in drawn.items()}
    return [_trusted(item, markup) for item in drawn]


def _resource(name: str) -> str:
    return files("tunewright.report").joinpath(name).read_text(encoding="utf-8")


def _view(story: Story) -> dict[str, Any]:
    summary, problem, steps = story.summary, story.problem, breakdowns(story)
    cluster = problem.cluster
    return {
        "title": f"{problem.model.name} on {cluster.nodes} × {cluster.gpus_per_node} {cluster.accelerator.name}",
        "run": story.header.run,
        "state": summary.state,
        "begun": f"{story.header.at[:10]} {story.header.at[11:16]} UTC",
        "simulated": summary.simulated,
        "question": question(story),
        "asked": asked(story),
        "answer": _answer(story),
        "sentence": summary.answer,
        "changes": changes(story.settings.baseline, story.best.config) if story.best else [],
        "beliefs": beliefs(story),
        "charts": _charts(story, steps),
        "tall_axes": is_tall(summary.axes),
        "short_names": ", ".join(f"{axis.short}: {axis.field.replace('_', ' ')}" for axis in shown_axes(story)),
        "candidates": [_candidate(row) for row in summary.candidates if not row.filtered][:MOST_CANDIDATES],
        "bias": bias_words(summary.bias) if summary.bias else "",
        "steps": steps,
        "step_kinds": tuple(dict.fromkeys(step.kind for step in steps)),
        "progress_kinds": ("projected", "measured") if summary.best_measured else ("projected",),
        "step_rows": _step_rows(steps),
        "memory_pictures": memory_pictures(story),
        "timelines": timeline_pictures(story),
        "hypotheses": [_hypothesis(item) for item in summary.hypotheses],
        "confirmed": sum(item.status == "confirmed" for item in summary.hypotheses),
        "filtered": filtered(story),
        "filtered_sentence": _filtered_sentence(story),
        "failures": [_failure(trial) for trial in story.state.trials.values() if trial.failure],
        "costs": costs(story),
        "exports": _exports(story),
        "commands": "\n".join(commands(story)),
        "provenance": provenance(story),
    }


def _answer(story: Story) -> dict[str, Any] | None:
    best = story.summary.best_measured or story.summary.best_projected
    if best is None:
        return None
    gains = best.improvement_percent
    tiles = [
        Fact(name, f"{gain:+.1f} %")
        for name, gain in (("over the baseline", gains.over_baseline), ("over the reference", gains.over_reference))
        if gain is not None
    ]
    tiles.append(Fact("range, tokens/s/GPU", f"{best.interval_low:,.0f}–{best.interval_high:,.0f}"))
    seconds = story.problem.tokens_per_step / (best.tokens_per_second_per_gpu * story.problem.world_size)
    tiles.append(Fact("for a step of the whole job", format_seconds(seconds)))
    if story.summary.bias is not None:
        tiles.append(Fact("bias of the projections", f"{story.summary.bias.percent:+.1f} %"))
    return {
        "kind": "measured" if story.summary.best_measured else "projected",
        "value": f"{best.tokens_per_second_per_gpu:,.0f}",
        "tiles": tiles,
        "configuration": describe(best.configuration),
        "trial": _trials_of(story, best.trial),
    }


def _trials_of(story: Story, trial: str) -> str:
    """Name the trials that the answer rests on."""
    profile = story.best.trial if story.best is not None else trial
    return f"from trial {trial}" if profile == trial else f"profiled by {profile}, measured by {trial}"


def _charts(story: Story, steps: list[Breakdown]) -> dict[str, str]:
    return {
        "progress": progress_chart(story),
        "axes": axis_chart(story.summary.axes),
        "configurations": configurations_chart(story),
        "accuracy": accuracy_chart(story),
        "step": step_chart(steps),
        "memory": memory_chart(story),
    }


def _candidate(row: CandidateRow) -> dict[str, Any]:
    figures = (row.measured, row.projected, row.estimated)
    cells = [
        *("–" if figure is None else f"{figure:,.0f}" for figure in figures),
        _percent(row.bias_percent),
        "–" if row.memory_percent is None else f"{row.memory_percent:.0f} %",
    ]
    return {"trial": row.trial, "configuration": row.configuration, "cells": cells}


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:+.1f} %"


def _step_rows(steps: list[Breakdown]) -> list[dict[str, Any]]:
    names = part_names(steps)
    rows = [
        {"name": words_of(name), "cells": [format_seconds(step.parts.get(name, 0.0)) for step in steps]}
        for name in names
    ]
    return [*rows, {"name": "whole step", "cells": [format_seconds(step.seconds) for step in steps]}]


def _hypothesis(item: TrackedHypothesis) -> dict[str, Any]:
    return {
        "status": item.status,
        "axes": " + ".join(item.axes),
        "round": item.round,
        "mechanism": item.mechanism,
        "expected": _percent(item.expected_gain_percent),
        "found": _percent(item.gain_percent),
        "kind": item.kind,
        "reason": item.reason,
    }


def _filtered_sentence(story: Story) -> str:
    counts, proposals = story.summary.space, story.summary.counters.filtered
    share = counts.filtered / counts.legal if counts.legal else 0.0
    return (
        f"{counts.filtered:,} of {counts.legal:,} legal configurations ({100 * share:.0f} %) need more than the "
        f"{format_gib(story.memory_limit_bytes)} that an allocation may reach. {proposals} of the proposals "
        "were among them."
    )


def _failure(trial: Trial) -> dict[str, str]:
    ended = trial.finished
    message = (ended.message or (ended.report.message if ended.report else "")) if ended else ""
    node = ended.node if ended else ""
    return {"trial": trial.name, "failure": str(trial.failure), "node": node, "message": message}


def _exports(story: Story) -> list[Fact]:
    if story.best is None:
        return []
    return list(_rendered(story))


def _rendered(story: Story) -> Iterator[Fact]:
    for name, render in RENDERERS.items():
        if story.best is not None:
            yield Fact(name, render(story.problem, story.best.config))
