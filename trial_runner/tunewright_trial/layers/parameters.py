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

Kind = Literal["split", "replicated", "expert"]
Fill = Literal["normal", "ones", "zeros"]
INITIAL_DEVIATION = 0.02


@dataclass(frozen=True)
class Placement:
    """How one parameter lies on the ranks of a stage.

    `split`: over the tensor group, or whole where T is 1. `replicated`: on every tensor rank, each with the gradient of
    its own tokens or heads, to be summed. `expert`: over the expert group.
    """

    kind: Kind
    dimension: int
    split: Split
    fill: Fill


def parameter(
    context: LayerContext,
    shape: tuple[int, ...],
    kind: Kind = "replicated",
    dimension: int = 0,
    fill: Fill = "normal",
) -> nn.Parameter:
    """Allocate this rank's part of a parameter whose whole shape is `shape`; values come from `initialise`."""
    split = {"split": context.tensor, "expert": context.expert, "replicated": WHOLE}[kind]
    local = list(shape)
    local[dimension] = split.share(shape[dimension], "a weight's dimension")
    value = nn.Parameter(torch.empty(local, dtype=context.dtype, device=context.device))
    value.placement = Placement(kind, dimension, split, fill)
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
                _fill(value, _seed_of(seed, name))
                done.add(id(value))


def _fill(value: nn.Parameter, seed: int) -> None:
    placement = placement_of(value)
    if placement.fill != "normal":
        value.fill_(1.0 if placement.fill == "ones" else 0.0)
        return
    generator = torch.Generator(device=value.device).manual_seed(seed)
    split = placement.split
    if not split.communicates:
        value.normal_(0.0, INITIAL_DEVIATION, generator=generator)
        return
    whole_shape = list(value.shape)
    whole_shape[placement.dimension] *= split.size
    whole = torch.empty(whole_shape, dtype=value.dtype, device=value.device)
    whole.normal_(0.0, INITIAL_DEVIATION, generator=generator)
    value.copy_(whole.chunk(split.size, placement.dimension)[split.rank])


def _seed_of(seed: int, name: str) -> int:
    digest = hashlib.sha256(f"{seed}:{name}".encode()).digest()
    return int.from_bytes(digest[:7], "big")


def count_parameters(module: nn.Module) -> int:
    """Return the elements of all parameters of this rank."""
    return sum(math.prod(value.shape) for value in module.parameters())
