"""Idle time of each schedule with equal stages, against the closed forms of its paper."""

import csv
from pathlib import Path

import numpy as np
import pytest

from tests.unit.performance.builders import a_batch
from tunewright.performance.pipeline.simulate import StageTimes, pipeline_seconds

TABLE = Path(__file__).parent / "tables" / "pipeline_schedules.csv"
ROWS = list(csv.DictReader(TABLE.read_text().splitlines()))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['schedule']}-p{row['ranks']}-m{row['micro_batches']}")
def test_equal_stages_idle_as_the_closed_form_says(row: dict[str, str]) -> None:
    ranks, chunks, micro_batches = int(row["ranks"]), int(row["chunks"]), int(row["micro_batches"])
    forward, backward_input, backward_weight = (
        float(row[name]) for name in ("forward", "backward_input", "backward_weight")
    )
    batch = a_batch(
        {
            "pipeline_parallel_size": ranks,
            "virtual_pipeline_parallel_size": chunks,
            "pipeline_schedule": row["schedule"],
        }
    )
    share = np.full((1, ranks, chunks), 1.0 / chunks)
    times = StageTimes(forward * share, backward_input * share, backward_weight * share, np.zeros(1))

    seconds = pipeline_seconds(batch, times, np.array([micro_batches]))

    idle = seconds[0] - micro_batches * (forward + backward_input + backward_weight)
    assert idle == pytest.approx(float(row["idle"]), rel=float(row["tolerance"]))
