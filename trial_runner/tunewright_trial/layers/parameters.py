"""Parameters that know how they are split, and their deterministic values.

Every layout of one model starts from the same weights: a parameter's full value depends on the seed and its name
alone, and each rank keeps its part. `parallel.optimizer` reads the placement to reduce gradients.
"""

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from tunewright_trial.layers.context import LayerContext
from tunewright_trial.layers.split import WHOLE, Split

Kind = Literal["split", "replicated", "key-value", "tied", "expert"]
Fill = Literal["normal", "ones", "zeros"]
INITIAL_DEVIATION = 0.02


@dataclass(frozen=True)
class Placement:
    """How one parameter lies on the ranks.

    `split`: over the tensor group, or whole where T is 1. `replicated`: on every tensor rank, each with the gradient of
    its own tokens or heads, to be summed. `key-value`: like split, but by fewer heads than ranks, so that neighbours
    hold the same. `tied`: an output layer that is apart from the embedding it equals, and that embedding. `expert`:
    over the expert group, and each expert over the expert tensor group.

    `parts` are the split dimensions, each with its split; `name` replaces the parameter's own in what its value is
    made from.
    """

    kind: Kind
    parts: tuple[tuple[int, Split], ...]
    fill: Fill
    name: str = ""


def parameter(
    context: LayerContext,
    shape: tuple[int, ...],
    kind: Kind = "replicated",
    dimension: int = 0,
    fill: Fill = "normal",
) -> nn.Parameter:
    """Allocate this rank's part of a parameter whose whole shape is `shape`; values come from `initialise`."""
    splits: dict[Kind, Split] = {"split": context.tensor, "replicated": WHOLE}
    return placed_parameter(context, shape, Placement(kind, ((dimension, splits[kind]),), fill))


def placed_parameter(context: LayerContext, shape: tuple[int, ...], placement: Placement) -> nn.Parameter:
    """Allocate this rank's part of a parameter whose whole shape is `shape` and whose placement is given."""
    local = list(shape)
    for dimension, split in placement.parts:
        local[dimension] = split.share(local[dimension], "a weight's dimension")
    value = nn.Parameter(torch.empty(local, dtype=context.dtype, device=context.device))
    value.placement = placement
    return value


def placement_of(value: nn.Parameter) -> Placement:
    """Return how a parameter made by `parameter` is split."""
    placement: Placement = value.placement
    return placement


def initialise(modules: Iterable[nn.Module], seed: int) -> None:
    """Give every parameter its value; equal names get equal whole values on every layout.

    A parameter that two modules share (tied embeddings) takes the value of its first name.
    """
    done: set[int] = set()
    with torch.no_grad():
        for name, value in ((name, value) for module in modules for name, value in module.named_parameters()):
            if id(value) not in done:
                _fill(value, _seed_of(seed, placement_of(value).name or name))
                done.add(id(value))


def _fill(value: nn.Parameter, seed: int) -> None:
    placement = placement_of(value)
    if placement.fill != "normal":
        value.fill_(1.0 if placement.fill == "ones" else 0.0)
        return
    generator = torch.Generator(device=value.device).manual_seed(seed)
    parts = [(dimension, split) for dimension, split in placement.parts if split.communicates]
    whole_shape = list(value.shape)
    for dimension, split in parts:
        whole_shape[dimension] *= split.size
    whole = torch.empty(whole_shape, dtype=value.dtype, device=value.device) if parts else value
    whole.normal_(0.0, INITIAL_DEVIATION, generator=generator)
    for dimension, split in parts:
        whole = whole.chunk(split.size, dimension)[split.rank]
    if parts:
        value.copy_(whole)


def _seed_of(seed: int, name: str) -> int:
    digest = hashlib.sha256(f"{seed}:{name}".encode()).digest()
    return int.from_bytes(digest[:7], "big")


def count_parameters(module: nn.Module) -> int:
    """Return the elements of all parameters of this rank."""
    return sum(math.prod(value.shape) for value in module.parameters())
