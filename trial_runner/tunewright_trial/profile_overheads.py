"""What is neither a layer nor a collective: the optimizer's time per parameter and the cost of a launch."""

import time

import torch
from torch import nn

from tunewright_trial.layers.context import LayerContext
from tunewright_trial.layers.split import WHOLE
from tunewright_trial.parallel.optimizer import Bucket
from tunewright_trial.profile_collectives import ParameterCounts
from tunewright_trial.timing import median_timing, repetitions, synchronize, time_call

MOST_PARAMETERS = 2**26
"""Enough to be bound by memory; the rest is proportional."""
LAUNCHES = 200


def optimizer_seconds_per_parameter(context: LayerContext, counts: ParameterCounts, steps: int) -> float:
    """Time AdamW over as many parameters as one layer has, and divide."""
    size = max(min(counts.largest_layer, MOST_PARAMETERS), 1)
    values = nn.Parameter(torch.zeros(size, dtype=context.dtype, device=context.device))
    bucket = Bucket([values], WHOLE, sharded=False, divisor=1)
    once, _ = time_call(context.device, bucket.step)
    samples = [time_call(context.device, bucket.step)[0] for _ in range(repetitions(steps, once, 0.05))]
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
