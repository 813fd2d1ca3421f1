"""Forward and the two halves of backward, timed apart. Used by the profile of layers and of the model's ends."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import torch

from tunewright_trial.timing import Stretch, repetitions, synchronize, time_work

WARM_UP = 2


@dataclass
class Case:
    """Something to time: `run` depends on `inputs` (none in an embedding) and `weights`. Samples are in seconds.

    Autograd skips weight gradients that nobody asks for, so the two backward passes differ by just those.
    """

    run: Callable[[], torch.Tensor]
    inputs: Sequence[torch.Tensor]
    weights: Sequence[torch.Tensor]
    forward: list[float] = field(default_factory=list)
    inputs_only: list[float] = field(default_factory=list)
    whole_backward: list[float] = field(default_factory=list)

    def sample(self, device: torch.device) -> float:
        """Add one sample of each pass and return the seconds that it took.

        Each backward has a forward of its own, so that both find the caches in the same state.
        """
        spent = self._backward(device, (*self.inputs, *self.weights), self.whole_backward)
        if self.inputs:
            return spent + self._backward(device, self.inputs, self.inputs_only)
        self.inputs_only.append(0.0)
        return spent

    def forget(self) -> None:
        """Drop the samples of the warm-up."""
        for samples in (self.forward, self.inputs_only, self.whole_backward):
            samples.clear()

    def stretch(self, factor: float) -> None:
        """Lengthen all samples by what the whole of them waited."""
        for samples in (self.forward, self.inputs_only, self.whole_backward):
            samples[:] = [sample * factor for sample in samples]

    def _backward(self, device: torch.device, targets: Sequence[torch.Tensor], samples: list[float]) -> float:
        synchronize(device)
        forward, result = time_work(device, self.run)
        backward, _ = time_work(device, partial(torch.autograd.grad, result, targets, torch.ones_like(result)))
        self.forward.append(forward)
        samples.append(backward)
        return forward + backward


def time_cases(device: torch.device, cases: Sequence[Case], steps: int) -> None:
    """Time all cases in turn, `steps` times or more, so that whatever drifts meanwhile reaches all of them alike."""
    once = [sum(case.sample(device) for case in cases) for _ in range(WARM_UP)]
    for case in cases:
        case.forget()
    with Stretch(device) as stretch:
        for _ in range(repetitions(steps, min(once), 0.1 * len(cases), 20)):
            for case in cases:
                case.sample(device)
    for case in cases:
        case.stretch(stretch.factor)
