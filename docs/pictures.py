"""Draws the pictures of docs/concepts with the model that they explain. Run by `make docs`.

Schedules are drawn with equal times and a small transfer, so that their shapes can be compared; memory with the stage
times of an example; accuracy with every published row that can be used.
"""

from pathlib import Path

import numpy as np

from tunewright.calibration.assessment import assess
from tunewright.calibration.reading import read_rows
from tunewright.cli.explain import changed
from tunewright.cli.loading import load_candidate
from tunewright.domain.catalog_loader import shipped_catalog
from tunewright.domain.training_config import V_SHAPED_SCHEDULES, PipelineSchedule
from tunewright.performance.pipeline.simulate import StageTimes
from tunewright.performance.pipeline.timeline import timeline
from tunewright.pictures.accuracy import accuracy_picture, interval_picture
from tunewright.pictures.memory import allocated_over_time, breakdown_picture, memory_picture
from tunewright.pictures.timeline import timeline_of, timeline_picture

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs/concepts/pictures"
EXAMPLE = ROOT / "examples/mixtral-8x22b-mi355x.yaml"
SCHEDULES: tuple[PipelineSchedule, ...] = (
    "1f1b",
    "interleaved-1f1b",
    "zero-bubble-h1",
    "zero-bubble-h2",
    "zero-bubble-v",
    "v-half",
    "v-min",
)
RANKS, MICRO_BATCHES, HOP = 4, 8, 0.05
BATCH = 128
"""Sequences a step of the memory pictures: eight micro batches a rank, few enough to see each."""
IN_MEMORY: tuple[tuple[PipelineSchedule, int], ...] = (("1f1b", 1), ("interleaved-1f1b", 2), ("v-half", 2))


def schedule_picture(schedule: PipelineSchedule) -> str:
    """Return a schedule with F = B = W = 1 for a whole rank and a transfer of 0.05."""
    chunks = 2 if schedule in (*V_SHAPED_SCHEDULES, "interleaved-1f1b") else 1
    unit = np.full((1, RANKS, chunks), 1.0 / chunks)
    events = timeline(schedule, StageTimes(unit, unit, unit, np.array([HOP])), MICRO_BATCHES)
    return timeline_picture(events, f"{schedule}: {RANKS} ranks, {MICRO_BATCHES} micro batches", "F")


def memory_pictures() -> dict[str, str]:
    """Return memory over time of three schedules, and by kind, of the example with a smaller batch."""
    problem, baseline = load_candidate(EXAMPLE)
    small = problem.model_copy(update={"global_batch_size": BATCH})
    limit = float(problem.cluster.accelerator.hbm_capacity_bytes)
    made = {}
    for schedule, chunks in IN_MEMORY:
        config = changed(small, baseline, [f"schedule={schedule}", f"vpp={chunks}", "ogr=false", "opg=false"])
        curves = allocated_over_time(small, config, timeline_of(small, config)[0])
        title = f"Mixtral 8x22B on 64 MI355X, FP8, PP4 EP8, {schedule}: allocated memory"
        made[f"memory-{schedule}"] = memory_picture(curves, limit, title)
    title = "Mixtral 8x22B on 64 MI355X, FP8, PP4 EP8, 1f1b: device memory by kind"
    made["memory-by-kind"] = breakdown_picture(problem, baseline, title)
    return made


def main() -> None:
    """Write every picture."""
    table = (ROOT / "tests/data/published_throughput.csv").read_text(encoding="utf-8")
    rows = assess(read_rows(table, "published", shipped_catalog())[0])
    pictures = {f"schedule-{schedule}": schedule_picture(schedule) for schedule in SCHEDULES}
    pictures |= memory_pictures() | {"accuracy": accuracy_picture(rows), "intervals": interval_picture(rows)}
    FOLDER.mkdir(exist_ok=True)
    for name, picture in pictures.items():
        (FOLDER / f"{name}.svg").write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
