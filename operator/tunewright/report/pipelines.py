"""Memory and timeline of the best configuration's pipeline and of the baseline's. Called by `page`; pure.

The drawings are those of `pictures`; here they lose their background, since the page has one.
"""

import re

from tunewright.domain.axes import describe
from tunewright.domain.config_batch import ConfigBatch
from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import TrainingConfig
from tunewright.memory.estimate import estimate
from tunewright.pictures.memory import breakdown_picture
from tunewright.pictures.timeline import timeline_of, timeline_picture
from tunewright.report.story import Story

MOST_EVENTS = 1600
"""Operations of one timeline: the page stays small, and what comes later repeats."""
MOST_RANKS = 64
LEAST_PERCENT = 2.0
"""Of the device: what takes less has no bars to see."""
_ROOM = re.compile(r'width="([\d.]+)" (height="[\d.]+") viewBox="0 0 [\d.]+ ')
_MORE = 44
"""Pixels at the right, where a full bar leaves no room for its number."""
_BACKGROUND = '<rect width="100%" height="100%" fill="#ffffff"/>'


def memory_pictures(story: Story) -> list[dict[str, str]]:
    """Return the memory of every pipeline rank, of each compared configuration."""
    return [_memory(story.problem, name, config) for name, config in story.compared]


def _memory(problem: TuningProblem, name: str, config: TrainingConfig) -> dict[str, str]:
    capacity = problem.cluster.accelerator.hbm_capacity_bytes
    ranks, title = config.pipeline_parallel_size, f"{name}: {describe(config)}"
    if ranks > MOST_RANKS:
        return {"svg": "", "caption": f"The {ranks} ranks of the {name} are too many to draw."}
    percent = 100 * float(estimate(problem, ConfigBatch.of([config])).device_bytes[0] / capacity)
    if percent < LEAST_PERCENT:
        return {"svg": "", "caption": f"The {name} takes {percent:.1f} % of a device's memory."}
    caption = f"Memory of each pipeline rank by kind, {name}."
    return {"svg": _bare(breakdown_picture(problem, config, title)), "caption": caption}


def timeline_pictures(story: Story) -> list[dict[str, str]]:
    """Return the pipeline over time of each compared configuration; a sentence where there is nothing to draw."""
    return [_timeline(story.problem, name, config) for name, config in story.compared]


def _timeline(problem: TuningProblem, name: str, config: TrainingConfig) -> dict[str, str]:
    ranks = config.pipeline_parallel_size
    if ranks == 1:
        return {"svg": "", "caption": f"The {name} has no pipeline: each rank holds all layers."}
    if ranks > MOST_RANKS:
        return {"svg": "", "caption": f"The pipeline of the {name} has {ranks} ranks, too many to draw."}
    events, micro_batches = timeline_of(problem, config)
    shown = sorted(events, key=lambda event: (event.start, event.rank))[:MOST_EVENTS]
    begun = 1 + max(event.micro_batch for event in shown)
    part = f"{begun} of the {micro_batches} micro batches of a step" if begun < micro_batches else "a whole step"
    if len(shown) < len(events):
        part = f"the first {len(shown):,} operations of a step of {micro_batches} micro batches"
    caption = f"Pipeline of the {name}: {part}. Gaps are idle time."
    return {"svg": _bare(timeline_picture(shown, f"{name}: {describe(config)}")), "caption": caption}


def _bare(picture: str) -> str:
    def wider(found: re.Match[str]) -> str:
        width = float(found[1]) + _MORE
        return f'width="{width:.0f}" {found[2]} viewBox="0 0 {width:.0f} '

    return _ROOM.sub(wider, picture.replace(_BACKGROUND, "", 1), count=1)
