"""The memory verdict of a large batch, without its items. Called by the search, which judges a whole space at once.

The same estimate as anywhere else, taken on rows of one pipeline size at a time, so that no rank is padded, and in
blocks that stay in the processor's cache; only the worst rank's totals are kept.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tunewright.domain.config_batch import BoolArray, ConfigBatch, FloatArray, IntArray
from tunewright.domain.problem import TuningProblem
from tunewright.memory.estimate import estimate
from tunewright.memory.fit import fits_and_tight

BLOCK_ELEMENTS = 16_384
"""Rows times ranks estimated at once."""


@dataclass(frozen=True)
class Screening:
    """Per row: the verdict, and the totals of the worst rank in bytes."""

    fits: BoolArray
    tight: BoolArray
    allocated_bytes: FloatArray
    device_bytes: FloatArray


def screen(problem: TuningProblem, batch: ConfigBatch) -> Screening:
    """Judge every row."""
    allocated, device = np.zeros(len(batch)), np.zeros(len(batch))
    for rows in _blocks(batch.pipeline_parallel_size):
        found = estimate(problem, batch.take(rows))
        allocated[rows], device[rows] = found.allocated_bytes, found.device_bytes
    fits, tight = fits_and_tight(problem, allocated, device)
    return Screening(fits, tight, allocated, device)


def _blocks(ranks: IntArray) -> Iterator[IntArray]:
    """Yield row numbers, of one pipeline size each."""
    order = np.argsort(ranks, kind="stable")
    sizes, starts = np.unique(ranks[order], return_index=True)
    ends = [*starts[1:], len(order)]
    for size, start, end in zip(sizes, starts, ends[: len(sizes)], strict=True):
        step = max(1, BLOCK_ELEMENTS // int(size))
        yield from (order[first : min(first + step, end)] for first in range(start, end, step))
