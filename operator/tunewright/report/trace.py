"""Pipelines as Chrome trace events, which Perfetto and chrome://tracing read. Called by the command line; pure.

Format: "Trace Event Format" of the Chromium project; complete events (`X`), microseconds, one process a
configuration and one thread a pipeline rank.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from tunewright.domain.axes import describe
from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import TrainingConfig
from tunewright.performance.pipeline.timeline import Event
from tunewright.pictures.timeline import NAMES, timeline_of
from tunewright.report.story import Story


def trace_of(problem: TuningProblem, named: Sequence[tuple[str, TrainingConfig]]) -> dict[str, Any]:
    """Return the trace of some configurations with their estimated stage times, each a process of its own."""
    events: list[dict[str, Any]] = []
    for process, (name, config) in enumerate(named, start=1):
        timed, _ = timeline_of(problem, config)
        events += _names(process, f"{name}: {describe(config)}", timed)
        events += (_event(process, event) for event in timed)
    return {
        "displayTimeUnit": "ms",
        "otherData": {"kind": "estimated", "model": problem.model.name},
        "traceEvents": events,
    }


def trace_of_story(story: Story) -> dict[str, Any]:
    """Return the pipelines of the best configuration and of the baseline."""
    return trace_of(story.problem, story.compared)


def _names(process: int, name: str, events: Sequence[Event]) -> Iterator[dict[str, Any]]:
    yield {"ph": "M", "name": "process_name", "pid": process, "tid": 0, "args": {"name": name}}
    for rank in sorted({event.rank for event in events}):
        yield {"ph": "M", "name": "thread_name", "pid": process, "tid": rank, "args": {"name": f"rank {rank}"}}


def _event(process: int, event: Event) -> dict[str, Any]:
    return {
        "ph": "X",
        "name": f"{NAMES[event.kind]} {event.micro_batch}",
        "cat": NAMES[event.kind],
        "pid": process,
        "tid": event.rank,
        "ts": round(1e6 * event.start, 3),
        "dur": round(1e6 * (event.end - event.start), 3),
        "args": {"microBatch": event.micro_batch, "chunk": event.chunk},
    }
