"""The static order of operations that each schedule gives each pipeline rank. Called by `graph`.

An operation is (kind, chunk, micro batch). In schedules that do not split the backward pass, `BACKWARD` stands for
both gradients and there is no `WEIGHT`. Orders are made for equal times and never adapted: a schedule's name must not
mean a better schedule than the one that will run. Sources: Narayanan et al. 2021 (arXiv 2104.04473) for 1F1B and
interleaving, Qi et al. 2024 (2401.10241) for zero bubble.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NamedTuple

from tunewright.domain.schedule import v_shaped
from tunewright.domain.schedule.operation import BACKWARD, FORWARD, WEIGHT, Operation, RankOrders
from tunewright.domain.training_config import PipelineSchedule

_SPLIT = frozenset({"zero-bubble-h1", "zero-bubble-h2", "zero-bubble-v", "v-half", "v-min"})


def splits_backward(schedule: PipelineSchedule) -> bool:
    """Return whether input and weight gradients are operations of their own."""
    return schedule in _SPLIT


@lru_cache(maxsize=1024)
def rank_orders(schedule: PipelineSchedule, ranks: int, chunks: int, micro_batches: int) -> RankOrders:
    """Return the operations of every rank, in order.

    Interleaving needs `micro_batches` to be a multiple of `ranks`; V-shaped schedules have two chunks and the others,
    but for interleaving, one: `chunks` is ignored there.
    """
    return _BUILDERS[schedule](ranks, chunks, micro_batches)


def _one_forward_one_backward(ranks: int, _: int, micro_batches: int) -> RankOrders:
    steps = _steps_of_one_chunk(micro_batches)
    return tuple(_alternate(steps, ranks - 1 - rank, None) for rank in range(ranks))


def _zero_bubble_h1(ranks: int, _: int, micro_batches: int) -> RankOrders:
    """As many forward passes ahead as 1F1B; rank i delays its weight gradients by i micro batches."""
    steps = _steps_of_one_chunk(micro_batches)
    return tuple(_alternate(steps, ranks - 1 - rank, rank) for rank in range(ranks))


def _zero_bubble_h2(ranks: int, _: int, micro_batches: int) -> RankOrders:
    """Twice as far ahead as 1F1B, so that no rank waits for the first backward pass; delays of 2i."""
    steps = _steps_of_one_chunk(micro_batches)
    return tuple(_alternate(steps, 2 * (ranks - 1 - rank), 2 * rank) for rank in range(ranks))


def _interleaved(ranks: int, chunks: int, micro_batches: int) -> RankOrders:
    """Groups of P micro batches pass through chunk after chunk; backward takes the chunks in reverse."""
    forward = _in_groups(FORWARD, ranks, range(chunks), micro_batches)
    backward = _in_groups(BACKWARD, ranks, range(chunks - 1, -1, -1), micro_batches)
    steps = _Steps(forward, backward, [])
    return tuple(_alternate(steps, 2 * (ranks - 1 - rank) + (chunks - 1) * ranks, None) for rank in range(ranks))


class _Steps(NamedTuple):
    """The operations of each kind as every rank does them; ranks differ in how they weave them, and share them."""

    forward: list[Operation]
    backward: list[Operation]
    weight: list[Operation]


def _steps_of_one_chunk(micro_batches: int) -> _Steps:
    return _Steps(*([(kind, 0, index) for index in range(micro_batches)] for kind in (FORWARD, BACKWARD, WEIGHT)))


def _in_groups(kind: int, ranks: int, chunks: range, micro_batches: int) -> list[Operation]:
    return [
        (kind, chunk, start + offset)
        for start in range(0, micro_batches, ranks)
        for chunk in chunks
        for offset in range(ranks)
    ]


def _alternate(steps: _Steps, ahead: int, weight_delay: int | None) -> tuple[Operation, ...]:
    """One rank: `ahead` forward passes, then one forward and one backward in turn until both are done."""
    order = steps.forward[:ahead]
    for index, step in enumerate(steps.backward):
        order += steps.forward[ahead + index : ahead + index + 1]
        order.append(step)
        if weight_delay is not None and index >= weight_delay:
            order.append(steps.weight[index - weight_delay])
    if weight_delay is not None:
        order += steps.weight[max(0, len(steps.weight) - weight_delay) :]
    return tuple(order)


_BUILDERS: Mapping[PipelineSchedule, Callable[[int, int, int], RankOrders]] = {
    "1f1b": _one_forward_one_backward,
    "interleaved-1f1b": _interleaved,
    "zero-bubble-h1": _zero_bubble_h1,
    "zero-bubble-h2": _zero_bubble_h2,
    "zero-bubble-v": v_shaped.zero_bubble_v,
    "v-half": v_shaped.v_half,
    "v-min": v_shaped.v_min,
}
