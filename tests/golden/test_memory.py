"""Memory against tables: model states derived by hand, and published measurements."""

import csv
from pathlib import Path

import pytest

from tests.unit.memory.examples import ACCELERATORS, MODELS, problem
from tunewright.domain.config_batch import ConfigBatch
from tunewright.domain.parameter_placement import place_parameters
from tunewright.domain.pipeline_layout import StageTable
from tunewright.domain.training_config import TrainingConfig
from tunewright.memory import estimate

TABLES = Path(__file__).parent / "tables"


def rows(name: str) -> list[dict[str, str]]:
    lines = [line for line in (TABLES / name).read_text().splitlines() if not line.startswith("#")]
    return list(csv.DictReader(lines))


def states_id(row: dict[str, str]) -> str:
    return (
        f"{row['model']}-tp{row['tensor']}-pp{row['pipeline']}-{row['schedule']}-{row['optimizer']}-rank{row['rank']}"
    )


def states_config(row: dict[str, str]) -> ConfigBatch:
    config = TrainingConfig(
        tensor_parallel_size=int(row["tensor"]),
        pipeline_parallel_size=int(row["pipeline"]),
        virtual_pipeline_parallel_size=int(row["virtual"]),
        expert_parallel_size=int(row["expert"]),
        pipeline_schedule=row["schedule"],
        precision=row["precision"],
        optimizer=row["optimizer"],
    )
    return ConfigBatch.of([config])


@pytest.mark.parametrize("row", rows("memory_states.csv"), ids=states_id)
def test_states_equal_those_derived_by_hand(row: dict[str, str]) -> None:
    posed = problem(MODELS[row["model"]], int(row["ranks"]))
    batch = states_config(row)
    rank = int(row["rank"])
    placed = place_parameters(posed, batch, StageTable.of(posed.model, batch))
    assert placed.dense[0, rank] == int(row["dense_parameters"])
    assert placed.experts[0, rank] == int(row["expert_parameters"])
    items = estimate(posed, batch).breakdown(0)[rank]
    assert items["weights"] == int(row["weights"])
    assert items["gradients"] == int(row["gradients"])
    assert items["optimizer"] == int(row["optimizer_states"])


TOLERANCE = {"allocated": 0.015, "device": 0.05}


@pytest.mark.parametrize("row", rows("memory_published.csv"), ids=lambda row: f"{row['model']}-{row['measured_gb']}")
def test_predictions_are_close_to_published_measurements(row: dict[str, str]) -> None:
    posed = problem(
        MODELS[row["model"]],
        int(row["ranks"]),
        ACCELERATORS[row["accelerator"]],
        sequence_length=int(row["sequence"]),
        global_batch_size=int(row["global_batch"]),
    )
    config = TrainingConfig(
        tensor_parallel_size=int(row["tensor"]),
        pipeline_parallel_size=int(row["pipeline"]),
        context_parallel_size=int(row["context"]),
        expert_parallel_size=int(row["expert"]),
        micro_batch_size=int(row["micro_batch"]),
        moe_dispatcher=row["dispatcher"],
        cross_entropy_fusion=row["fused_loss"] == "yes",
    )
    predicted = estimate(posed, ConfigBatch.of([config]))
    total = predicted.allocated_bytes if row["kind"] == "allocated" else predicted.device_bytes
    assert total[0] / 1e9 == pytest.approx(float(row["measured_gb"]), rel=TOLERANCE[row["kind"]])
