"""Orders of the V-shaped schedules: two chunks a rank, the second on the way back. Called by `orders`.

ZBV is the hand-made schedule of Qi et al. 2024 (arXiv 2405.15362) for equal times. V-half and V-min repeat a building
block every six unit times (the same paper): a forward or backward pass moves to the next stage after a fixed offset,
and the sum of the offsets sets the memory, P/2 and P/3 of 1F1B's. A weight gradient fills the first free slot.
"""

from collections.abc import Iterator
from itertools import product

from tunewright.domain.schedule.operation import BACKWARD, FORWARD, WEIGHT, Operation, RankOrders

PERIOD = 6
"""Unit operations of one micro batch on one rank: forward, backward and weight gradient of two chunks."""

Hops = tuple[int, int, int, int]
"""Slots from stage to stage: forward down, forward up, backward down, backward up the ranks."""

V_HALF_HOPS: Hops = (1, 2, 1, 2)
V_MIN_HOPS: Hops = (1, 1, 1, 1)


def zero_bubble_v(ranks: int, _: int, micro_batches: int) -> RankOrders:
    """Return ZBV, built for at least 2P − 1 micro batches and cut to those that exist."""
    full = max(micro_batches, 2 * ranks - 1)
    orders = (_zero_bubble_v_rank(ranks, rank, full) for rank in range(ranks))
    return tuple(tuple(step for step in order if step[2] < micro_batches) for order in orders)


def _zero_bubble_v_rank(ranks: int, rank: int, micro_batches: int) -> list[Operation]:
    """One rank of ZBV: fill with forward passes, alternate the chunks, then drain with the weight gradients last."""
    line = _Line()
    line.add(*[(FORWARD, 0)] * (2 * (ranks - rank) - 1))
    line.add(*[(FORWARD, 1), (FORWARD, 0)] * rank)
    line.add(*[(FORWARD, 1), (BACKWARD, 1), (WEIGHT, 1)] * (ranks - rank))
    while line.count(FORWARD, 1) < micro_batches:
        if line.count(FORWARD, 0) < micro_batches:
            line.add((FORWARD, 0))
        line.add((BACKWARD, 0), (WEIGHT, 0), (FORWARD, 1), (BACKWARD, 1), (WEIGHT, 1))
    line.add(*[(BACKWARD, 0), (BACKWARD, 1)] * rank)
    line.add(*[(BACKWARD, 0), (WEIGHT, 0)] * (ranks - rank))
    for chunk in (1, 0):
        line.add(*[(WEIGHT, chunk)] * (micro_batches - line.count(WEIGHT, chunk)))
    return line.order


class _Line:
    """Operations of one rank in the making; numbers the micro batches of each kind and chunk."""

    def __init__(self) -> None:
        self.order: list[Operation] = []
        self._next: dict[tuple[int, int], int] = {}

    def count(self, kind: int, chunk: int) -> int:
        return self._next.get((kind, chunk), 0)

    def add(self, *steps: tuple[int, int]) -> None:
        for kind, chunk in steps:
            index = self.count(kind, chunk)
            self.order.append((kind, chunk, index))
            self._next[kind, chunk] = index + 1


def v_half(ranks: int, _: int, micro_batches: int) -> RankOrders:
    """Return V-half: about half of 1F1B's memory, ⌊(P+2)/2⌋ micro batches in flight."""
    return _repeat_block(ranks, micro_batches, V_HALF_HOPS, in_flight_chunks=2 * ((ranks + 2) // 2))


def v_min(ranks: int, _: int, micro_batches: int) -> RankOrders:
    """Return V-min: about a third of 1F1B's memory, ⌊(P+4)/3⌋ micro batches in flight."""
    return _repeat_block(ranks, micro_batches, V_MIN_HOPS, in_flight_chunks=2 * ((ranks + 4) // 3))


def _repeat_block(ranks: int, micro_batches: int, hops: Hops, in_flight_chunks: int) -> RankOrders:
    """Repeat the block for every micro batch, then let unit-time execution place the weight gradients."""
    sequences = [_sequence(offsets, micro_batches) for offsets in building_block(ranks, hops)]
    return _Filling(sequences, in_flight_chunks).run()


def building_block(ranks: int, hops: Hops) -> list[tuple[int, int, int, int]]:
    """Return per rank the slots of forward 0, forward 1, backward 1 and backward 0 of the first micro batch.

    The waits at the three turning points are the shortest for which no rank has two operations in one slot modulo
    the period; among equals, the later turns are the shorter ones. For P beyond the period, whether they collide
    depends on P modulo the period alone, and for each remainder there are waits that do not.
    """
    waits = sorted(product(range(1, PERIOD), repeat=3), key=lambda turns: (sum(turns), turns[::-1]))
    blocks = ([_slots(ranks, rank, hops, turns) for rank in range(ranks)] for turns in waits)
    return next(block for block in blocks if all(_repeats(slots) for slots in block))


def _repeats(slots: tuple[int, ...]) -> bool:
    return len({slot % PERIOD for slot in slots}) == len(slots)


def _slots(ranks: int, rank: int, hops: Hops, turns: tuple[int, ...]) -> tuple[int, int, int, int]:
    last = ranks - 1
    forward_top = last * (hops[0] + hops[1]) + turns[0]
    backward_bottom = forward_top + turns[1] + last * hops[2]
    return (
        rank * hops[0],
        forward_top - rank * hops[1],
        forward_top + turns[1] + rank * hops[2],
        backward_bottom + turns[2] + (last - rank) * hops[3],
    )


def _sequence(offsets: tuple[int, int, int, int], micro_batches: int) -> list[Operation]:
    kinds = ((FORWARD, 0), (FORWARD, 1), (BACKWARD, 1), (BACKWARD, 0))
    timed = [
        (offset + PERIOD * index, (kind, chunk, index))
        for index in range(micro_batches)
        for offset, (kind, chunk) in zip(offsets, kinds, strict=True)
    ]
    return [step for _, step in sorted(timed)]


class _Filling:
    """Unit-time execution of fixed forward/backward sequences that puts a weight gradient into each idle slot.

    A rank that holds `limit` chunks of activations does a waiting weight gradient before its next forward pass.
    """

    def __init__(self, sequences: list[list[Operation]], limit: int) -> None:
        self._sequences = sequences
        self._limit = limit
        self._orders: list[list[Operation]] = [[] for _ in sequences]
        self._position = [0] * len(sequences)
        self._waiting: list[list[Operation]] = [[] for _ in sequences]
        self._held = [0] * len(sequences)
        self._done: set[tuple[int, int, int]] = set()

    def run(self) -> RankOrders:
        remaining = sum(len(sequence) * 3 // 2 for sequence in self._sequences)
        while remaining:
            steps = list(self._choices())
            for rank, step in steps:
                self._execute(rank, step)
            remaining -= len(steps)
        return tuple(tuple(order) for order in self._orders)

    def _choices(self) -> Iterator[tuple[int, Operation]]:
        for rank, sequence in enumerate(self._sequences):
            waiting = self._waiting[rank]
            if self._position[rank] < len(sequence):
                step = sequence[self._position[rank]]
                full = step[0] == FORWARD and waiting and self._held[rank] >= self._limit
                if not full and self._is_ready(rank, step):
                    yield rank, step
                    continue
            if waiting:
                yield rank, waiting[0]

    def _is_ready(self, rank: int, step: Operation) -> bool:
        kind, chunk, index = step
        stage = self._stage(rank, chunk)
        if kind == FORWARD:
            return stage == 0 or (FORWARD, stage - 1, index) in self._done
        if stage == 2 * len(self._sequences) - 1:
            return (FORWARD, stage, index) in self._done
        return (BACKWARD, stage + 1, index) in self._done

    def _execute(self, rank: int, step: Operation) -> None:
        kind, chunk, index = step
        self._orders[rank].append(step)
        if kind == WEIGHT:
            self._waiting[rank].pop(0)
            self._held[rank] -= 1
            return
        self._position[rank] += 1
        self._done.add((kind, self._stage(rank, chunk), index))
        if kind == FORWARD:
            self._held[rank] += 1
        else:
            self._waiting[rank].append((WEIGHT, chunk, index))

    def _stage(self, rank: int, chunk: int) -> int:
        return 2 * len(self._sequences) - 1 - rank if chunk else rank
