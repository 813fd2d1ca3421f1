"""Memory of pipeline ranks over time and by kind. Made for the documentation.

What a rank holds beside saved activations is drawn as constant: states stay, and the peak of what comes and goes
within a pass is inside every pass. Activations follow the schedule's own forward, backward and weight passes.
"""

from collections.abc import Sequence

import numpy as np

from tunewright.domain.config_batch import ConfigBatch
from tunewright.domain.degrees import Degrees
from tunewright.domain.problem import TuningProblem
from tunewright.domain.schedule.operation import BACKWARD, FORWARD, WEIGHT
from tunewright.domain.schedule.orders import splits_backward
from tunewright.domain.training_config import TrainingConfig
from tunewright.memory.constants import constants_for
from tunewright.memory.estimate import KINDS, estimate
from tunewright.memory.in_flight import in_flight
from tunewright.performance.pipeline.timeline import Event
from tunewright.pictures.svg import COLOURS, GREY, Picture, Point, legend
from tunewright.units import GIB

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 960.0, 340.0, 70.0, 20.0, 56.0, 40.0
_BAR = 30.0

Curve = list[tuple[float, float]]
"""Seconds and bytes; a value holds until the next."""


def allocated_over_time(problem: TuningProblem, config: TrainingConfig, events: Sequence[Event]) -> list[Curve]:
    """Return what every rank has allocated, from the events of the configuration's timeline.

    The highest point of a rank is its peak of the memory estimate.
    """
    batch = ConfigBatch.of([config])
    memory, constants = estimate(problem, batch), constants_for(problem.cluster.accelerator)
    saved = memory.by_kind["activations"][0] - memory.items["recomputed_unit"][0]
    micro_batches = Degrees.of(problem, batch).num_micro_batches
    unit = saved / in_flight(batch, len(saved), micro_batches, constants)[0]
    chunks = 1 + max(event.chunk for event in events)
    late = constants.weight_gradient_share if splits_backward(config.pipeline_schedule) else 0.0
    curves = []
    for rank, allocated in enumerate(memory.allocated_by_rank[0]):
        own = [event for event in events if event.rank == rank]
        held = _held(own, late)
        curves.append([(at, float(allocated - saved[rank] + count / chunks * unit[rank])) for at, count in held])
    return curves


def _held(events: Sequence[Event], late: float) -> Curve:
    """Return the chunks' worth of activations that a rank holds; `late` is the share that waits for W."""
    share = {BACKWARD: 1.0 - late, WEIGHT: late}
    changes = [(event.start, 1.0) if event.kind == FORWARD else (event.end, -share[event.kind]) for event in events]
    changes.sort(key=lambda change: (round(change[0], 9), change[1]))  # what ends frees before what starts then
    return [(0.0, 0.0), *zip([at for at, _ in changes], np.cumsum([change for _, change in changes]), strict=True)]


def memory_picture(curves: Sequence[Curve], limit_bytes: float, title: str) -> str:
    """Return the allocation of every rank over time, with what the device has."""
    picture = Picture(_WIDTH, _HEIGHT, title)
    picture.text((_LEFT, 20), title, 'font-weight="bold"')
    legend(picture, {f"rank {rank}": COLOURS[rank % len(COLOURS)] for rank in range(len(curves))}, (_LEFT, 42), 80)
    end = max(curve[-1][0] for curve in curves)
    step = 50 * GIB if limit_bytes > 120 * GIB else 10 * GIB
    for level in np.arange(0, limit_bytes, step):
        picture.line(_place(0, level, end, limit_bytes), _place(end, level, end, limit_bytes))
        picture.text((_LEFT - 8, _place(0, level, end, limit_bytes)[1] + 4), f"{level / GIB:.0f}", 'text-anchor="end"')
    picture.line(_place(0, limit_bytes, end, limit_bytes), _place(end, limit_bytes, end, limit_bytes), "#d62728")
    picture.text((_LEFT - 8, _TOP + 4), f"{limit_bytes / GIB:.0f} GiB", 'text-anchor="end"')
    for rank, curve in enumerate(curves):
        picture.path(_steps(curve, end, limit_bytes), COLOURS[rank % len(COLOURS)])
    picture.text((_WIDTH - _RIGHT, _HEIGHT - 14), f"{end:.3g} s", 'text-anchor="end"')
    picture.text((_LEFT, _HEIGHT - 14), "0")
    return picture.svg()


def _place(at: float, size: float, end: float, limit: float) -> Point:
    height = _HEIGHT - _TOP - _BOTTOM
    return _LEFT + at / end * (_WIDTH - _LEFT - _RIGHT), _TOP + height * (1 - size / limit)


def _steps(curve: Curve, end: float, limit: float) -> list[Point]:
    points: list[Point] = []
    for at, size in curve:
        place = _place(at, size, end, limit)
        if points:
            points.append((place[0], points[-1][1]))
        points.append(place)
    return points


def breakdown_picture(problem: TuningProblem, config: TrainingConfig, title: str) -> str:
    """Return the device memory of every rank by kind, as one bar a rank."""
    memory = estimate(problem, ConfigBatch.of([config]))
    limit, ranks = problem.cluster.accelerator.hbm_capacity_bytes, int(memory.rank_exists[0].sum())
    shown = [kind for kind in KINDS if memory.by_kind[kind][0].max() > 0.002 * limit]
    picture = Picture(_WIDTH, _TOP + ranks * _BAR + 40, title)
    picture.text((_LEFT, 20), title, 'font-weight="bold"')
    legend(picture, {kind: COLOURS[list(KINDS).index(kind)] for kind in shown}, (_LEFT, 42), 105)
    scale = (_WIDTH - _LEFT - _RIGHT) / limit
    for rank in range(ranks):
        left, y = _LEFT, _TOP + rank * _BAR
        picture.text((_LEFT - 8, y + 18), f"rank {rank}", 'text-anchor="end"')
        for kind in shown:
            size = float(memory.by_kind[kind][0, rank])
            picture.box((left, y), (size * scale, _BAR - 5), COLOURS[list(KINDS).index(kind)], _words(kind, size))
            left += size * scale
        picture.text((left + 6, y + 18), f"{memory.device_by_rank[0, rank] / GIB:.0f} GiB")
    bottom = _TOP + ranks * _BAR
    picture.line((_LEFT, bottom), (_WIDTH - _RIGHT, bottom), GREY)
    picture.line((_WIDTH - _RIGHT, _TOP - 4), (_WIDTH - _RIGHT, bottom), "#d62728")
    picture.text((_WIDTH - _RIGHT, bottom + 18), f"device: {limit / GIB:.0f} GiB", 'text-anchor="end"')
    return picture.svg()


def _words(kind: str, size: float) -> str:
    return f"{kind}: {size / GIB:.1f} GiB"
