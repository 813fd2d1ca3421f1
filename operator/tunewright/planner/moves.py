"""What limits the incumbent, and which single changes would relieve it, by the analytic model. Called by the briefing.

The vocabulary is that of Aceso (Liu et al., EuroSys 2024): name the resource that is the bottleneck, then the
moves that take load off it and what they put on others. A move changes one axis; what has to follow it, follows.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tunewright.domain.axes import AXES
from tunewright.domain.training_config import TrainingConfig
from tunewright.domain.value import camel_case
from tunewright.planner.settings import PlannerSettings
from tunewright.planner.sweep import searched_axes
from tunewright.search.neighbourhood import nearest
from tunewright.search.space import Space

RESOURCES: Mapping[str, tuple[str, ...]] = {
    "compute": ("computeForward", "computeBackward"),
    "recomputation": ("recompute",),
    "tensor-parallel communication": ("tensorCommunication",),
    "expert-parallel communication": ("expertCommunication",),
    "context-parallel communication": ("contextCommunication",),
    "pipeline idle time": ("pipelineTransfer", "pipelineBubble"),
    "data-parallel communication": ("gradientReduction", "parameterGather"),
    "memory bandwidth of the optimizer": ("optimizer",),
    "host": ("hostOverhead",),
}
"""Parts of a step by the resource that they wait for."""
MOST_MOVES = 16
LEAST_SHIFT = 0.002
"""Changes of a resource's time below this share of the step are not named."""


@dataclass(frozen=True)
class Move:
    """One changed axis: the row that it leads to and what it does to the step, as shares of the incumbent's."""

    row: int
    field: str
    value: object
    follows: tuple[str, ...]
    gain: float
    shifts: Mapping[str, float]
    """Time by resource that it adds, below 0 takes away, where that is worth naming."""


def resource_shares(parts: Mapping[str, float]) -> dict[str, float]:
    """Return the share of a step's time that waits for each resource, largest first."""
    total = sum(parts.values()) or 1.0
    found = {name: sum(parts.get(part, 0.0) for part in members) / total for name, members in RESOURCES.items()}
    return dict(sorted(((name, share) for name, share in found.items() if share > 0), key=lambda item: -item[1]))


def bottleneck(shares: Mapping[str, float]) -> str:
    """Name the resource to relieve: the largest share beside useful work, which every configuration has to do."""
    return next((name for name in shares if name != "compute"), "compute")


def single_moves(space: Space, settings: PlannerSettings, incumbent: TrainingConfig) -> tuple[Move, ...]:
    """Return the fitting changes of one axis, best estimated gain first; at most `MOST_MOVES`."""
    row = space.row_of(incumbent)
    if row is None:
        return ()
    key = ("moves", row, settings.baseline, tuple(sorted(settings.search_space.items())))
    if key not in space.memo:
        space.memo[key] = _moves(space, settings, incumbent, row)
    found: tuple[Move, ...] = space.memo[key]
    return found


def _moves(space: Space, settings: PlannerSettings, incumbent: TrainingConfig, row: int) -> tuple[Move, ...]:
    moves = []
    for field in searched_axes(space, settings):
        for value in space.values(field):
            if value == getattr(incumbent, field):
                continue
            neighbour = nearest(space, incumbent, {field: value})
            if neighbour is not None and space.fits[neighbour.row]:
                moves.append(_move(space, row, field, value, neighbour.row, neighbour.repaired))
    return tuple(sorted(moves, key=lambda move: (-round(move.gain, 6), move.row))[:MOST_MOVES])


def _move(space: Space, row: int, field: str, value: object, target: int, follows: tuple[str, ...]) -> Move:
    step = float(space.step_seconds[row])
    shifts = {}
    for name, members in RESOURCES.items():
        present = [space.parts[part] for part in members if part in space.parts]
        shift = sum(float(part[target] - part[row]) for part in present) / step
        if abs(shift) >= LEAST_SHIFT:
            shifts[name] = shift
    gain = float(space.tokens_per_second_per_gpu[target] / space.tokens_per_second_per_gpu[row]) - 1
    return Move(target, field, value, follows, gain, shifts)


def moves_json(space: Space, moves: tuple[Move, ...]) -> list[dict[str, Any]]:
    """Return moves as the LLM reads them; shares in percent of the incumbent's step."""
    return [
        {
            "axis": camel_case(move.field),
            "value": "+".join(move.value) if isinstance(move.value, tuple) else move.value,
            "follows": _followers(space, move),
            "estimatedGainPercent": round(100 * move.gain, 1),
            "relievesPercent": {name: round(-100 * shift, 1) for name, shift in move.shifts.items() if shift < 0},
            "costsPercent": {name: round(100 * shift, 1) for name, shift in move.shifts.items() if shift > 0},
            "memoryPercent": round(space.memory_percent(move.row), 1),
        }
        for move in moves
    ]


def _followers(space: Space, move: Move) -> dict[str, Any]:
    config, order = space.config(move.row), [axis.field for axis in AXES]
    fields = sorted(move.follows, key=order.index)
    values = {name: getattr(config, name) for name in fields}
    return {camel_case(name): "+".join(value) if isinstance(value, tuple) else value for name, value in values.items()}
