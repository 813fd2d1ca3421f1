"""Where the time of a step goes, best beside baseline. Called by `page`.

Both take the same tokens per step, so that their seconds compare.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tunewright.domain.config_batch import ConfigBatch
from tunewright.domain.training_config import TrainingConfig
from tunewright.performance.step import estimate
from tunewright.pictures.svg import COLOURS
from tunewright.report.plotting import INK, chart
from tunewright.report.story import Story

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LEAST_SHARE = 0.004
"""Of the longer step: what takes less is not seen."""


@dataclass(frozen=True)
class Breakdown:
    """The parts of one configuration's step, in seconds."""

    name: str
    kind: Literal["projected", "estimated"]
    parts: Mapping[str, float]

    @property
    def seconds(self) -> float:
        """The whole step."""
        return sum(self.parts.values())


def breakdowns(story: Story) -> list[Breakdown]:
    """Return best and baseline: from the profile where there is one, from the analytic model where there is none."""
    return [_breakdown(story, name, config) for name, config in story.compared]


def _breakdown(story: Story, name: str, config: TrainingConfig) -> Breakdown:
    candidate = story.evaluation.by_config.get(config)
    if candidate is not None and candidate.projection is not None:
        return Breakdown(name, "projected", candidate.projection.parts)
    step = estimate(story.problem, ConfigBatch.of([config]))
    return Breakdown(name, "estimated", {part: float(seconds[0]) for part, seconds in step.parts.items()})


def part_names(steps: list[Breakdown]) -> list[str]:
    """Return the parts that are long enough to be seen in one of the steps, in the model's order."""
    longest = max(step.seconds for step in steps)
    names = dict.fromkeys(name for step in steps for name in step.parts)
    return [name for name in names if max(step.parts.get(name, 0.0) for step in steps) > _LEAST_SHARE * longest]


def step_chart(steps: list[Breakdown]) -> str:
    """Return the chart of one or two steps."""
    names = part_names(steps)

    def draw(axes: "Axes") -> None:
        for place, name in enumerate(names):
            for row, step in enumerate(steps):
                left = sum(step.parts.get(other, 0.0) for other in names[:place])
                colour = COLOURS[place % len(COLOURS)]
                axes.barh(
                    row,
                    step.parts.get(name, 0.0),
                    left=left,
                    height=0.6,
                    color=colour,
                    label=words_of(name) if row == 0 else "_",
                )
        axes.set_yticks(range(len(steps)), [step.name for step in steps])
        axes.set_ylim(len(steps) - 0.5, -0.5)
        axes.tick_params(axis="y", length=0)
        axes.grid(visible=False, axis="y")
        axes.spines["left"].set_visible(False)
        axes.set_xlabel("seconds of one step")
        axes.figure.legend(loc="outside lower left", ncols=2, labelcolor=INK, handlelength=1.0)

    told = "; ".join(f"{step.name} {step.seconds:.3g} seconds" for step in steps)
    return chart("step", f"parts of a step, {told}", 1.0 + 0.45 * len(steps) + 0.21 * ((len(names) + 1) // 2), draw)


def words_of(name: str) -> str:
    """Turn a camelCase name into words.

    >>> words_of("computeForward")
    'compute forward'
    """
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name)
