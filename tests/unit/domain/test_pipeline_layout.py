"""Where the layers of a model go: by rank, by virtual stage, and what cannot be laid out."""

import pytest

from tunewright.domain.catalog_loader import shipped_catalog
from tunewright.domain.config_batch import ConfigBatch
from tunewright.domain.pipeline_layout import StageTable, layers_per_rank, layers_per_stage
from tunewright.domain.training_config import TrainingConfig


@pytest.mark.parametrize(
    ("layers", "ranks", "chunks", "layout", "expected"),
    [
        (32, 4, 1, "even", (8, 8, 8, 8)),
        (32, 4, 3, "even", None),
        (61, 8, 1, "shorter-edges", (7, 8, 8, 8, 8, 8, 8, 6)),
        (94, 4, 2, "shorter-edges", (24, 24, 24, 22)),
        (27, 4, 2, "shorter-edges", None),
        (32, 4, 1, "shorter-edges", None),
        (32, 4, 1, "7,9,9,7", (7, 9, 9, 7)),
        (32, 4, 2, "7,9,9,7", None),
        (32, 4, 1, "0,16,8,8", None),
        (32, 4, 1, "8,8,8", None),
    ],
)
def test_layers_of_ranks(layers: int, ranks: int, chunks: int, layout: str, expected: tuple[int, ...] | None) -> None:
    assert layers_per_rank(layers, ranks, chunks, layout) == expected


@pytest.mark.parametrize(
    ("layers", "ranks", "chunks", "layout", "expected"),
    [
        (27, 4, 2, "shorter-edges", (2, 4, 4, 4, 4, 4, 4, 1)),
        (61, 8, 2, "shorter-edges", (3, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 2)),
        (94, 4, 2, "shorter-edges", None),
        (56, 4, 3, "shorter-edges", None),
        (27, 4, 1, "shorter-edges", None),
        (32, 4, 2, "even", None),
        (6, 2, 2, "0,3,3,0", (0, 3, 3, 0)),
        (6, 2, 2, "3,3", None),
    ],
)
def test_layers_of_virtual_stages_where_ranks_cannot_say_them(
    layers: int, ranks: int, chunks: int, layout: str, expected: tuple[int, ...] | None
) -> None:
    assert layers_per_stage(layers, ranks, chunks, layout) == expected


def test_a_v_shape_takes_its_second_chunk_back_up_the_ranks() -> None:
    model = shipped_catalog().model("deepseek-v2-lite")
    fields = {"pipeline_parallel_size": 4, "virtual_pipeline_parallel_size": 2, "pipeline_layout": "shorter-edges"}
    down, across = (
        StageTable.of(model, ConfigBatch.of([TrainingConfig.parse({**fields, "pipeline_schedule": schedule})]))
        for schedule in ("zero-bubble-v", "interleaved-1f1b")
    )
    assert (down.dense + down.moe)[0].tolist() == [[2, 1], [4, 4], [4, 4], [4, 4]]
    assert (across.dense + across.moe)[0].tolist() == [[2, 4], [4, 4], [4, 4], [4, 1]]
    assert down.head_rank().tolist() == [0]
    assert across.head_rank().tolist() == [3]
