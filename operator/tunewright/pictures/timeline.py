"""A pipeline schedule over time, one lane a rank. Called by `tunewright explain --timeline` and for the docs."""

from collections.abc import Sequence

from tunewright.domain.config_batch import ConfigBatch
from tunewright.domain.degrees import Degrees
from tunewright.domain.problem import TuningProblem
from tunewright.domain.schedule.operation import BACKWARD, FORWARD, WEIGHT
from tunewright.domain.training_config import TrainingConfig
from tunewright.performance.pipeline.timeline import Event, timeline
from tunewright.performance.step import stage_seconds
from tunewright.pictures.svg import GREY, Picture, legend

LEFT, RIGHT, TOP, LANE = 60.0, 20.0, 56.0, 26.0
"""Pixels: margins of a picture over time, and the height of a rank's lane."""

_WIDTH = 960.0
_PERIODS_SHOWN = 4
"""Micro batches in a picture at most, in units of P: by then every schedule has shown its steady state."""
_SHORTEST_WITH_NUMBER = 11.0
_FILLS = {FORWARD: ("#4269d0", "#97bbf5"), BACKWARD: ("#3ca951", "#a8dfb3"), WEIGHT: ("#efb118", "#f9dc94")}
"""First chunk of a rank, and the others."""
NAMES = {FORWARD: "forward", BACKWARD: "backward", WEIGHT: "weight gradient"}


def timeline_picture(events: Sequence[Event], title: str, unit: str = "s") -> str:
    """Return the events as boxes that carry their micro batch's number; gaps are idle time."""
    ranks, end = 1 + max(event.rank for event in events), max(event.end for event in events)
    scale = (_WIDTH - LEFT - RIGHT) / end
    picture = Picture(_WIDTH, TOP + ranks * LANE + 34, title)
    picture.text((LEFT, 20), title, 'font-weight="bold"')
    legend(picture, _legend(events), (LEFT, 42), 150)
    for rank in range(ranks):
        picture.text((LEFT - 8, TOP + rank * LANE + 17), f"rank {rank}", 'text-anchor="end"')
    for event in events:
        _draw(picture, event, scale)
    bottom = TOP + ranks * LANE + 4
    picture.line((LEFT, bottom), (_WIDTH - RIGHT, bottom), GREY)
    picture.text((LEFT, bottom + 18), "0")
    picture.text((_WIDTH - RIGHT, bottom + 18), f"{end:.4g} {unit}", 'text-anchor="end"')
    return picture.svg()


def _draw(picture: Picture, event: Event, scale: float) -> None:
    x, y, width = LEFT + event.start * scale, TOP + event.rank * LANE, (event.end - event.start) * scale
    words = f"rank {event.rank} {NAMES[event.kind]} {event.micro_batch} chunk {event.chunk}"
    fill = _FILLS[event.kind][min(event.chunk, 1)]
    picture.box((x, y), (max(width - 0.6, 0.3), LANE - 3), fill, f"{words}: {event.start:.4g} to {event.end:.4g}")
    if width >= _SHORTEST_WITH_NUMBER:
        picture.text((x + width / 2, y + 16), str(event.micro_batch), 'text-anchor="middle" font-size="10"')


def _legend(events: Sequence[Event]) -> dict[str, str]:
    names = {NAMES[kind]: _FILLS[kind][0] for kind in sorted({event.kind for event in events})}
    return names | ({"other chunks": _FILLS[FORWARD][1]} if any(event.chunk for event in events) else {})


def timeline_of(problem: TuningProblem, config: TrainingConfig) -> tuple[list[Event], int]:
    """Return the events of one configuration with its own stage times, and how many micro batches its step has.

    Events end after `_PERIODS_SHOWN`·P micro batches.
    """
    batch = ConfigBatch.of([config])
    micro_batches = int(Degrees.of(problem, batch).num_micro_batches[0])
    shown = min(micro_batches, _PERIODS_SHOWN * config.pipeline_parallel_size)
    return timeline(config.pipeline_schedule, stage_seconds(problem, batch), shown), micro_batches
