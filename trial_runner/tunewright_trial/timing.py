"""Times of calls on a device, and their medians. Used by everything that measures."""

import math
import statistics
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

import torch

from tunewright.trial_protocol.report import MAX_SPREAD, Timing

Result = TypeVar("Result")


def synchronize(device: torch.device) -> None:
    """Wait until the device has done everything that was launched."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def time_call(device: torch.device, function: Callable[[], Result]) -> tuple[float, Result]:
    """Run `function` once and return its seconds with its result: device events on GPUs, a clock on the CPU."""
    if device.type != "cuda":
        start = time.perf_counter()
        result = function()
        return time.perf_counter() - start, result
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    result = function()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) / 1e3, result


def time_work(device: torch.device, function: Callable[[], Result]) -> tuple[float, Result]:
    """Like `time_call` for computation alone: on the CPU, seconds of this thread without those when others ran.

    A pass of a millisecond is either interrupted by another rank of the node or not, so that wall times of single
    passes have two values; `Stretch` adds the waiting back, averaged.
    """
    if device.type == "cuda":
        return time_call(device, function)
    start = time.thread_time()
    result = function()
    return time.thread_time() - start, result


class Stretch:
    """How much longer than its own work this thread took, because ranks share cores: wall over CPU seconds.

    Use as a context around the work; `factor` is at least 1, and 1 on GPUs.
    """

    def __init__(self, device: torch.device) -> None:
        self.factor = 1.0
        self._shared = device.type != "cuda"

    def __enter__(self) -> "Stretch":
        self._wall, self._own = time.perf_counter(), time.thread_time()
        return self

    def __exit__(self, *error: object) -> None:
        wall, own = time.perf_counter() - self._wall, time.thread_time() - self._own
        if self._shared and own > 0:
            self.factor = max(wall / own, 1.0)


def median_timing(samples: Sequence[float]) -> Timing:
    """Return the median of `samples` in seconds, with half the interquartile range over the median as spread."""
    median = statistics.median(samples)
    if len(samples) < 2 or median <= 0:
        return timing(median, 0.0)
    low, _, high = statistics.quantiles(samples, n=4, method="inclusive")
    return timing(median, (high - low) / 2 / median)


def timing(seconds: float, spread: float) -> Timing:
    """Return a timing in as many digits as it deserves: the whole report must fit into 3,000 bytes."""
    seconds, spread = max(seconds, 0.0), min(max(spread, 0.0), MAX_SPREAD)
    return Timing(seconds=float(f"{seconds:.5g}"), spread=float(f"{spread:.3g}"))


STABLE = 0.01
"""Half the width of the median's 95 % interval over the median, below which samples suffice."""


def is_stable(samples: Sequence[float]) -> bool:
    """Whether the median is known well enough: its distribution-free 95 % interval is narrow.

    The interval lies between the order statistics n/2 ± 0.98·√n (David and Nagaraja, Order Statistics, 7.1).
    """
    count = len(samples)
    low, high = math.floor(count / 2 - 0.98 * math.sqrt(count)), math.ceil(count / 2 + 0.98 * math.sqrt(count))
    if low < 0 or high >= count:
        return False
    ordered = sorted(samples)
    return (ordered[high] - ordered[low]) / 2 <= STABLE * statistics.median(ordered)


def repetitions(requested: int, once_seconds: float, budget_seconds: float = 0.1, most: int = 15) -> int:
    """Return how often to repeat something that takes `once_seconds`: more than requested only while it is cheap."""
    affordable = int(budget_seconds / max(once_seconds, 1e-9))
    return max(requested, min(most, affordable))
