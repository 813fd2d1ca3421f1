"""Which layers sit on which pipeline rank and chunk. Read by legality, memory, performance and the trial program.

Chunk `c` of rank `r` is virtual stage `c·P + r`, except for V-shaped schedules, where the second chunk comes back up
the ranks: rank `r` holds virtual stages `r` and `2P - 1 - r`, so that embedding and head share rank 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from tunewright.domain.config_batch import BoolArray, ConfigBatch, IntArray
from tunewright.domain.model_architecture import ModelArchitecture
from tunewright.domain.training_config import EVEN_LAYOUT, SHORTER_EDGES_LAYOUT, V_SHAPED_SCHEDULES


def layers_per_rank(num_layers: int, ranks: int, chunks: int, layout: str) -> tuple[int, ...] | None:
    """Return the layers of each pipeline rank, or None where the layout does not fit the model.

    Every rank's count must be divisible by `chunks`. `shorter-edges` gives each middle rank the smallest equal share
    of at least L/P and splits the rest between the first and the last rank, the last one never longer.

    >>> layers_per_rank(61, 8, 1, "shorter-edges")
    (7, 8, 8, 8, 8, 8, 8, 6)
    """
    if layout == EVEN_LAYOUT:
        counts = _even(num_layers, ranks, chunks)
    elif layout == SHORTER_EDGES_LAYOUT:
        counts = _shorter_edges(num_layers, ranks, chunks)
    else:
        counts = tuple(int(part) for part in layout.split(","))
    if counts is None or len(counts) != ranks or sum(counts) != num_layers:
        return None
    if any(count % chunks or count < chunks for count in counts):
        return None
    return counts


def layers_per_stage(num_layers: int, ranks: int, chunks: int, layout: str) -> tuple[int, ...] | None:
    """Return the layers of every virtual stage in the model's order, where these cannot be said by rank, else None.

    Either `layout` lists P·V of them, or P does not divide the layers and `shorter-edges` has no counts by rank that V
    divides: then the outer stages give way instead of the outer ranks. Launchers take such lists where embedding and
    loss count as layers.

    >>> layers_per_stage(27, 4, 2, "shorter-edges")
    (2, 4, 4, 4, 4, 4, 4, 1)
    """
    if chunks == 1 or layout == EVEN_LAYOUT:
        return None
    if layout == SHORTER_EDGES_LAYOUT:
        by_rank = num_layers % ranks == 0 or _shorter_edges(num_layers, ranks, chunks) is not None
        return None if by_rank else _shorter_edges(num_layers, ranks * chunks, 1)
    stages = tuple(int(part) for part in layout.split(","))
    return stages if len(stages) == ranks * chunks and sum(stages) == num_layers else None


def _even(num_layers: int, ranks: int, chunks: int) -> tuple[int, ...] | None:
    return None if num_layers % (ranks * chunks) else (num_layers // ranks,) * ranks


def _shorter_edges(num_layers: int, ranks: int, chunks: int) -> tuple[int, ...] | None:
    if ranks < 2 or num_layers % (ranks * chunks) == 0 or num_layers % chunks:
        return None  # one rank has no edges, and where layers divide, `even` is the same layout
    middle = chunks * -(-num_layers // (ranks * chunks))
    rest = num_layers - middle * (ranks - 2)
    last = chunks * (rest // (2 * chunks))
    first = rest - last
    if last < chunks or first > middle:
        return None
    return (first, *(middle,) * (ranks - 2), last)


@dataclass(frozen=True)
class StageTable:
    """Layers by kind for every distinct (P, V, schedule shape, layout) of a batch.

    `dense[u, r, c]` and `moe[u, r, c]` count the layers of chunk `c` on rank `r` in distinct layout `u`; `index[i]`
    is the `u` of row `i`. Unused ranks and chunks hold zero. `possible[u]` is False where the layout does not fit.
    """

    index: IntArray
    ranks: IntArray
    chunks: IntArray
    v_shaped: BoolArray
    dense: IntArray
    moe: IntArray
    possible: BoolArray

    @property
    def max_ranks(self) -> int:
        """Largest pipeline of the batch: the length of every rank dimension."""
        return int(self.dense.shape[1])

    def per_rank(self) -> tuple[IntArray, IntArray]:
        """Return dense and MoE layers of every row and rank, shape (rows, ranks)."""
        return self._per_rank

    @cached_property
    def _per_rank(self) -> tuple[IntArray, IntArray]:
        return self.dense.sum(axis=2)[self.index], self.moe.sum(axis=2)[self.index]

    def head_rank(self) -> IntArray:
        """Return the rank that holds the output layer, per row: the last one, or 0 in V-shaped schedules."""
        return np.where(self.v_shaped, 0, self.ranks - 1)[self.index]

    def rank_exists(self) -> BoolArray:
        """Return which ranks of the padded dimension exist, shape (rows, ranks)."""
        return np.arange(self.max_ranks)[None, :] < self.ranks[self.index][:, None]

    @classmethod
    def of(cls, model: ModelArchitecture, batch: ConfigBatch) -> "StageTable":
        """Lay out the model for every distinct pipeline shape of the batch."""
        v_shaped = batch.is_("pipeline_schedule", *V_SHAPED_SCHEDULES)
        ranks, chunks = batch.pipeline_parallel_size, batch.virtual_pipeline_parallel_size
        layout = batch.columns["pipeline_layout"]
        keys = ((ranks * (chunks.max(initial=0) + 1) + chunks) * 2 + v_shaped) * len(batch.layouts) + layout
        _, first, index = np.unique(keys, return_index=True, return_inverse=True)
        unique = np.stack([ranks, chunks, v_shaped.astype(np.int64), layout], axis=1)[first]
        tables = [_table(model, *(int(part) for part in key[:3]), batch.layouts[int(key[3])]) for key in unique]
        return cls(
            index=index.reshape(-1).astype(np.int64),
            ranks=unique[:, 0],
            chunks=unique[:, 1],
            v_shaped=unique[:, 2].astype(bool),
            dense=_stack([table[0] for table in tables]),
            moe=_stack([table[1] for table in tables]),
            possible=np.array([table[2] for table in tables], dtype=bool),
        )


def virtual_stage(rank: int, chunk: int, ranks: int, v_shaped: bool) -> int:
    """Return the position of a chunk in the model's order."""
    return 2 * ranks - 1 - rank if v_shaped and chunk == 1 else chunk * ranks + rank


@lru_cache(maxsize=4096)
def _table(
    model: ModelArchitecture, ranks: int, chunks: int, v_shaped: int, layout: str
) -> tuple[NDArray[np.int64], NDArray[np.int64], bool]:
    dense = np.zeros((ranks, chunks), dtype=np.int64)
    moe = np.zeros((ranks, chunks), dtype=np.int64)
    stages = layers_per_stage(model.num_layers, ranks, chunks, layout)
    counts = layers_per_rank(model.num_layers, ranks, chunks, layout)
    if stages is None and counts is None:
        return dense, moe, False
    places = [(rank, chunk) for rank in range(ranks) for chunk in range(chunks)]
    order = sorted((virtual_stage(rank, chunk, ranks, bool(v_shaped)), rank, chunk) for rank, chunk in places)
    first_layer = 0
    for stage, rank, chunk in order:
        layers = stages[stage] if stages is not None else counts[rank] // chunks if counts is not None else 0
        dense[rank, chunk] = max(0, min(model.num_dense_layers - first_layer, layers))
        moe[rank, chunk] = layers - dense[rank, chunk]
        first_layer += layers
    return dense, moe, True


def _stack(tables: Sequence[NDArray[np.int64]]) -> IntArray:
    ranks = max(table.shape[0] for table in tables)
    chunks = max(table.shape[1] for table in tables)
    stacked = np.zeros((len(tables), ranks, chunks), dtype=np.int64)
    for row, table in zip(stacked, tables, strict=True):
        row[: table.shape[0], : table.shape[1]] = table
    return stacked
