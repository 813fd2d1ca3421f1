"""Forward and the two halves of backward of one module, timed apart. Used by the profile of layers and edges."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch

from tunewright_trial.timing import repetitions, synchronize, time_call

WARM_UP = 2


@dataclass(frozen=True)
class Passes:
    """Samples in seconds: forward, gradient of the inputs alone, gradient of inputs and weights together."""

    forward: list[float]
    inputs_only: list[float]
    whole_backward: list[float]


def time_passes(
    device: torch.device,
    run: Callable[[], torch.Tensor],
    inputs: Sequence[torch.Tensor],
    weights: Sequence[torch.Tensor],
    steps: int,
) -> Passes:
    """Time `run`, whose result depends on `inputs` (which may be none: an embedding) and `weights`.

    Autograd skips weight gradients that nobody asks for, so the two backward passes differ by just those.
    """
    passes = Passes([], [], [])
    first = [_sample(device, run, inputs, weights, Passes([], [], [])) for _ in range(WARM_UP)]
    for _ in range(repetitions(steps, min(first))):
        _sample(device, run, inputs, weights, passes)
    return passes


def _sample(
    device: torch.device,
    run: Callable[[], torch.Tensor],
    inputs: Sequence[torch.Tensor],
    weights: Sequence[torch.Tensor],
    passes: Passes,
) -> float:
    """Add one sample of everything and return its seconds. Each backward has a forward of its own, so that both
    find the caches in the same state."""
    spent = 0.0
    wanted: list[tuple[list[float], Sequence[torch.Tensor]]] = [(passes.whole_backward, (*inputs, *weights))]
    if inputs:
        wanted.insert(0, (passes.inputs_only, inputs))
    else:
        passes.inputs_only.append(0.0)
    for samples, targets in wanted:
        synchronize(device)
        forward, result = time_call(device, run)
        gradient = torch.ones_like(result)
        backward, _ = time_call(device, partial(torch.autograd.grad, result, targets, gradient))
        passes.forward.append(forward)
        samples.append(backward)
        spent += forward + backward
    return spent
