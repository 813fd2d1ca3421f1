"""Pictures hold what they show: every operation once, to scale, and memory that peaks where the estimate says."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from tests.unit.performance.builders import a_moe_model, a_problem
from tests.unit.performance.pipeline.test_timeline import MICRO_BATCHES, RANKS, events_of
from tunewright.domain.config_batch import ConfigBatch
from tunewright.domain.schedule.orders import splits_backward
from tunewright.domain.training_config import PIPELINE_SCHEDULES, PipelineSchedule, TrainingConfig
from tunewright.memory.estimate import estimate
from tunewright.pictures.memory import allocated_over_time, breakdown_picture, memory_picture
from tunewright.pictures.timeline import LEFT, timeline_of, timeline_picture

NAME = "{http://www.w3.org/2000/svg}"
KIND = re.compile(r"rank \d+ (forward|backward|weight gradient) \d+ chunk \d+")


def boxes(picture: str) -> dict[str, tuple[float, float]]:
    """Return left and right edge of every box that has words, by what they say before the colon."""
    found = {}
    for box in ElementTree.fromstring(picture).iter(f"{NAME}rect"):
        words = box.findtext(f"{NAME}title")
        if words:
            left = float(box.attrib["x"])
            assert words.partition(":")[0] not in found
            found[words.partition(":")[0]] = (left, left + float(box.attrib["width"]))
    return found


@pytest.mark.parametrize("schedule", PIPELINE_SCHEDULES)
def test_a_timeline_has_every_operation_once(schedule: PipelineSchedule) -> None:
    events = events_of(schedule)
    drawn = boxes(timeline_picture(events, "title"))
    chunks = 1 + max(event.chunk for event in events)
    kinds = 3 if splits_backward(schedule) else 2
    assert len(drawn) == len(events) == RANKS * chunks * MICRO_BATCHES * kinds
    assert all(KIND.fullmatch(words) for words in drawn)


def test_a_timeline_is_as_long_as_the_simulation() -> None:
    events = events_of("1f1b")
    picture = timeline_picture(events, "title")
    end = max(event.end for event in events)
    assert f">{end:.4g} s<" in picture
    scale = (max(right for _, right in boxes(picture).values()) - LEFT) / end
    first = boxes(picture)["rank 0 forward 1 chunk 0"]
    assert first[0] - LEFT == pytest.approx(events[1].start * scale, abs=1.0)


def test_the_title_is_escaped() -> None:
    picture = timeline_picture(events_of("1f1b"), 'a < b & "c"')
    assert ElementTree.fromstring(picture).attrib["aria-label"] == 'a < b & "c"'


@pytest.mark.parametrize(("schedule", "chunks"), [("1f1b", 1), ("interleaved-1f1b", 2), ("zero-bubble-h1", 1)])
def test_memory_over_time_peaks_at_the_estimate(schedule: str, chunks: int) -> None:
    problem = a_problem(a_moe_model(), global_batch_size=128)
    config = TrainingConfig.parse(
        {
            "pipeline_parallel_size": 4,
            "virtual_pipeline_parallel_size": chunks,
            "expert_parallel_size": 8,
            "pipeline_schedule": schedule,
        }
    )
    events, micro_batches = timeline_of(problem, config)
    assert micro_batches == 1 + max(event.micro_batch for event in events)
    curves = allocated_over_time(problem, config, events)
    expected = estimate(problem, ConfigBatch.of([config])).allocated_by_rank[0]
    peaks = [max(size for _, size in curve) for curve in curves]
    assert peaks == pytest.approx(expected.tolist(), rel=0.01)
    assert memory_picture(curves, 288 * 2**30, "title").count("<polyline") == 4
    resting = [curve[-1][1] for curve in curves]
    assert np.all(np.array(resting) < expected)


def test_the_bars_add_up_to_the_device_total() -> None:
    problem = a_problem(a_moe_model())
    config = TrainingConfig.parse({"pipeline_parallel_size": 4, "expert_parallel_size": 8})
    total = estimate(problem, ConfigBatch.of([config])).device_by_rank[0]
    picture = breakdown_picture(problem, config, "title")
    for size in total:
        assert f">{size / 2**30:.0f} GiB<" in picture
