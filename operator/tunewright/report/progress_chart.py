"""How a run went, trial by trial: what each gave, by kind of figure, and the best so far. Called by `page`."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tunewright.planner.decisions import ProposedBy
from tunewright.report.plotting import BAD, INK, MEASURED, MUTED, PROJECTED, chart
from tunewright.report.story import Story

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PROPOSERS: dict[ProposedBy, tuple[str, str]] = {
    "baseline": ("baseline", "D"),
    "sweep": ("sweep", "o"),
    "surrogate": ("surrogate", "^"),
    "llm": ("LLM", "*"),
    "validation": ("validation", "s"),
}
"""Name and marker of whoever proposed a trial."""


@dataclass(frozen=True)
class Step:
    """One trial that ended, in the order in which trials ended."""

    trial: str
    kind: Literal["projected", "measured", "failed"]
    proposed_by: ProposedBy
    value: float
    """Tokens/s/GPU; 0 where the trial failed."""


def steps_of(story: Story) -> list[Step]:
    """Return the trials that ended, each once; one that was attempted again stands where its last attempt ended."""
    names = dict.fromkeys(record.trial for record in reversed(story.state.finished_attempts))
    trials = [story.state.trials[name] for name in reversed(names)]
    return [_step(story, trial.name) for trial in trials if not trial.running]


def _step(story: Story, name: str) -> Step:
    trial = story.state.trials[name]
    by = trial.origin.proposed_by
    report, candidate = trial.report, story.evaluation.by_config.get(trial.config)
    if report is not None and report.measured is not None:
        return Step(name, "measured", by, report.measured.tokens_per_second_per_gpu)
    if report is not None and candidate is not None and candidate.projected:
        return Step(name, "projected", by, candidate.projected)
    return Step(name, "failed", by, 0.0)


def progress_chart(story: Story) -> str:
    """Return the chart; empty where no trial has ended."""
    steps = steps_of(story)
    if not steps:
        return ""
    ends = [(place, step) for place, step in enumerate(steps, start=1)]
    reference = story.settings.reference

    def draw(axes: "Axes") -> None:
        from matplotlib.ticker import MaxNLocator

        _best_so_far(axes, ends)
        for kind, colour in (("projected", PROJECTED), ("measured", MEASURED)):
            _dots(axes, [(place, step) for place, step in ends if step.kind == kind], colour)
        low = min((step.value for step in steps if step.value), default=0.0)
        failed = [place for place, step in ends if step.kind == "failed"]
        if failed:
            axes.scatter(failed, [low] * len(failed), marker="x", color=BAD, s=34, zorder=4)
        if reference is not None:
            axes.axhline(reference.tokens_per_second_per_gpu, color=MUTED, linestyle=(0, (4, 3)), linewidth=1)
        axes.set_xlabel("trials that have ended")
        axes.set_ylabel("tokens/s/GPU")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.yaxis.set_major_formatter("{x:,.0f}")
        axes.margins(x=0.04, y=0.1)
        _legend(axes, steps, with_reference=reference is not None)

    best = max((step.value for step in steps if step.kind == "projected"), default=0.0)
    words = f"{len(steps)} trials; the best projection is {best:,.0f} tokens per second and GPU"
    return chart("progress", words, 3.6, draw)


def _best_so_far(axes: "Axes", ends: list[tuple[int, Step]]) -> None:
    best, line = 0.0, []
    for place, step in ends:
        if step.kind == "projected":
            best = max(best, step.value)
        if best:
            line.append((place, best))
    if line:
        axes.step([x for x, _ in line], [y for _, y in line], where="post", color=PROJECTED, linewidth=1.4, alpha=0.55)


def _dots(axes: "Axes", ends: list[tuple[int, Step]], colour: str) -> None:
    for by, (_, marker) in PROPOSERS.items():
        mine = [(place, step.value) for place, step in ends if step.proposed_by == by]
        size = 70 if marker == "*" else 30
        axes.scatter([x for x, _ in mine], [y for _, y in mine], marker=marker, color=colour, s=size, zorder=3)


def _legend(axes: "Axes", steps: list[Step], *, with_reference: bool) -> None:
    from matplotlib.lines import Line2D

    def dot(name: str, colour: str, marker: str, line: Literal["none", "--"] = "none") -> Line2D:
        return Line2D([], [], color=colour, marker=marker, linestyle=line, label=name, markersize=6)

    kinds = {"projected": (PROJECTED, "o"), "measured": (MEASURED, "o"), "failed": (BAD, "x")}
    shown = [dot(kind, *style) for kind, style in kinds.items() if any(step.kind == kind for step in steps)]
    proposers = {step.proposed_by for step in steps}
    shown += [dot(name, INK, marker) for by, (name, marker) in PROPOSERS.items() if by in proposers]
    if with_reference:
        shown.append(dot("reference", MUTED, "none", "--"))
    axes.figure.legend(
        handles=shown, loc="outside lower center", ncols=3, labelcolor=INK, handletextpad=0.3, columnspacing=1.2
    )
