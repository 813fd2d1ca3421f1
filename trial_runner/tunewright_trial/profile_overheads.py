"""What is neither a layer nor a collective: the optimizer's time per parameter and the cost of a launch."""

import time
from functools import partial

import torch
from torch import nn

from tunewright_trial.diagnostics import of_this_rank
from tunewright_trial.layers.context import LayerContext
from tunewright_trial.layers.split import WHOLE
from tunewright_trial.parallel.optimizer import Bucket
from tunewright_trial.timing import median_timing, repetitions, synchronize, time_call

MOST_PARAMETERS = 2**26
"""Enough to be bound by memory; the rest is proportional."""
LAUNCHES = 200
ANY_LEARNING_RATE = 1e-3


def optimizer_seconds_per_parameter(context: LayerContext, updated_parameters: int, steps: int) -> float:
    """Time AdamW over as many parameters as this rank updates, and divide."""
    size = max(min(updated_parameters, MOST_PARAMETERS), 1)
    values = nn.Parameter(torch.zeros(size, dtype=context.dtype, device=context.device))
    bucket = Bucket([values], WHOLE, sharded=False, divisor=1)
    step = partial(bucket.step, ANY_LEARNING_RATE)
    once, _ = time_call(context.device, step)
    samples = [time_call(context.device, step)[0] for _ in range(repetitions(steps, once, 0.05))]
    of_this_rank.add("optimizer", parameters=size, seconds=samples)
    return float(f"{median_timing(samples).seconds / size:.5g}")


def launch_overhead_seconds(device: torch.device) -> float:
    """Return the host's seconds for one tiny operation."""
    value = torch.zeros(1, device=device)
    value.add_(1)
    synchronize(device)
    start = time.perf_counter()
    for _ in range(LAUNCHES):
        value.add_(1)
    elapsed = time.perf_counter() - start
    synchronize(device)
    return float(f"{elapsed / LAUNCHES:.5g}")
