"""Forward and the two halves of backward, timed apart. Used by the profile of layers and of the model's ends."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import torch

from tunewright_trial.diagnostics import of_this_rank
from tunewright_trial.timing import Stretch, is_stable, synchronize, time_work

MOST_WARM_UPS = 3
MOST_REPETITIONS = 60
SECONDS_PER_CASE = 0.1
"""A case whose median is still uncertain after this share of the time is left with the spread that it has."""


@dataclass
class Case:
    """Something to time: `run` depends on `inputs` (none in an embedding) and `weights`. Samples are in seconds.

    `name` is what diagnostics call it.

    Autograd skips weight gradients that nobody asks for, so the two backward passes differ by just those, and by what
    adding them to `grad` takes, which a step does for every micro batch.
    """

    run: Callable[[], torch.Tensor]
    inputs: Sequence[torch.Tensor]
    weights: Sequence[torch.Tensor]
    name: str = ""
    forward: list[float] = field(default_factory=list)
    inputs_only: list[float] = field(default_factory=list)
    whole_backward: list[float] = field(default_factory=list)

    def sample(self, device: torch.device) -> float:
        """Add one sample of each pass and return the seconds that it took.

        Each backward has a forward of its own, so that both find the caches in the same state.
        """
        for tensor in self.inputs:
            tensor.grad = None
        spent = self._backward(device, self._accumulate, self.whole_backward)
        if self.inputs:
            return spent + self._backward(device, self._only_inputs, self.inputs_only)
        self.inputs_only.append(0.0)
        return spent

    @property
    def is_stable(self) -> bool:
        """Whether both passes that count are known well enough."""
        return is_stable(self.forward) and is_stable(self.whole_backward)

    def forget(self) -> None:
        """Drop the samples of the warm-up."""
        for samples in (self.forward, self.inputs_only, self.whole_backward):
            samples.clear()

    def stretch(self, factor: float) -> None:
        """Lengthen all samples by what the whole of them waited."""
        for samples in (self.forward, self.inputs_only, self.whole_backward):
            samples[:] = [sample * factor for sample in samples]

    def tell(self, stretch: float) -> None:
        """Keep all samples in the diagnostics, with the stretch that is in them."""
        samples = {"forward": self.forward, "inputs_only": self.inputs_only, "whole_backward": self.whole_backward}
        of_this_rank.add("passes", name=self.name, stretch=stretch, **samples)

    def _accumulate(self, result: torch.Tensor) -> None:
        torch.autograd.backward(result, torch.ones_like(result), inputs=[*self.inputs, *self.weights])

    def _only_inputs(self, result: torch.Tensor) -> None:
        torch.autograd.grad(result, self.inputs, torch.ones_like(result))

    def _backward(self, device: torch.device, run: Callable[[torch.Tensor], None], samples: list[float]) -> float:
        synchronize(device)
        forward, result = time_work(device, self.run)
        backward, _ = time_work(device, partial(run, result))
        self.forward.append(forward)
        samples.append(backward)
        return forward + backward


def _warm_up(device: torch.device, cases: Sequence[Case]) -> None:
    """Run all cases until a round is no longer clearly faster than the one before, then drop the samples."""
    fastest = math.inf
    for _ in range(MOST_WARM_UPS):
        seconds = sum(case.sample(device) for case in cases)
        if seconds > 0.95 * fastest:
            break
        fastest = min(fastest, seconds)
    for case in cases:
        case.forget()


def time_cases(device: torch.device, cases: Sequence[Case], steps: int) -> float:
    """Time all cases in turn, so that whatever drifts meanwhile reaches all of them alike.

    At least `steps` times, then until every median is known within 1 % or the time is up. Returns how much longer than
    its own work this thread took, which is in the samples.
    """
    _warm_up(device, cases)
    with Stretch(device) as stretch:
        limit = time.perf_counter() + SECONDS_PER_CASE * len(cases)
        for repetition in range(MOST_REPETITIONS):
            if repetition >= steps and (time.perf_counter() > limit or all(case.is_stable for case in cases)):
                break
            for case in cases:
                case.sample(device)
    for case in cases:
        case.stretch(stretch.factor)
        case.tell(stretch.factor)
    return stretch.factor
