"""How far the answer may be believed, in sentences. Called by `page` and by the text report; pure."""

from collections.abc import Iterator

from tunewright.planner.figures import (
    FEWER_NODES,
    LOSS_DIFFERS,
    LOSS_NOT_COMPARED,
    REFERENCE_PRECISION_DIFFERS,
    RUNNER_LACKS_IT,
    BestMeasured,
    BiasFigure,
)
from tunewright.report.facts import counted
from tunewright.report.step_chart import words_of
from tunewright.report.story import Story

SIMULATED = "Simulated: a stand-in answered instead of a GPU. No figure on this page says anything about hardware."

_FLAGS = {
    REFERENCE_PRECISION_DIFFERS: "The reference was measured in another precision: the gain over it mixes two effects.",
    FEWER_NODES: "Measured on fewer nodes than the job has: what grows with the nodes is not in the figure.",
    RUNNER_LACKS_IT: "The trials' runner cannot run it as a whole job: it stays a projection.",
    LOSS_DIFFERS: "It does not train like the baseline: its speed is no gain until the difference is explained.",
    LOSS_NOT_COMPARED: "The baseline was not measured, so nobody knows whether the best trains like it.",
}
_PREFIXES = {
    "modelled": "{} was not timed but modelled.",
    "untimed-group": "The {} group does not fit in one node and was not timed.",
    "within-layers": "The {} group's collectives were timed as part of the layers.",
}


def beliefs(story: Story) -> list[str]:
    """Return what speaks for and against the answer, the gravest first."""
    return list(_beliefs(story))


def _beliefs(story: Story) -> Iterator[str]:
    summary = story.summary
    if summary.simulated:
        yield SIMULATED
    if summary.best_measured is not None:
        yield from _measured(story, summary.best_measured)
    elif summary.best_projected is not None:
        projected = summary.best_projected
        span = f"{projected.interval_low:,.0f} to {projected.interval_high:,.0f} tokens/s/GPU"
        yield f"Nothing was measured: the answer is a projection from a single-node profile, between {span}."
    best = summary.best_measured or summary.best_projected
    yield from (flag_words(flag) for flag in (best.flags if best is not None else ()))
    if summary.bias is not None:
        yield bias_words(summary.bias)
    if summary.finish_message:
        yield f"The search ended: {summary.finish_message}."


def _measured(story: Story, best: BestMeasured) -> Iterator[str]:
    nodes = story.problem.cluster.nodes
    span = f"{best.interval_low:,.0f} to {best.interval_high:,.0f} tokens/s/GPU"
    if best.repeats > 1:
        yield f"Measured in {best.repeats} whole-job runs on {best.nodes} of {nodes} nodes; their range is {span}."
    else:
        yield (
            f"Measured in one whole-job run on {best.nodes} of {nodes} nodes; the middle half of its steps ran at "
            f"{span}. How much two runs differ was not measured."
        )
    parity = best.loss_parity
    if parity is not None and parity.agrees:
        yield (
            f"It trains like the baseline: over {counted(parity.steps, 'step')} the losses differ by at most "
            f"{parity.largest_difference * 100:.2f} %, within {parity.tolerance * 100:.0f} %."
        )
    elif parity is not None:
        difference, steps = f"{parity.largest_difference * 100:.1f} %", counted(parity.steps, "step")
        yield f"Its loss differs from the baseline's by {difference} over {steps}."
    if best.memory_percent is not None:
        yield f"Its fullest rank reached {best.memory_percent:.0f} % of the device memory."


def bias_words(bias: BiasFigure) -> str:
    """Return how far projections were off."""
    samples = counted(bias.samples, "configuration")
    span = ""
    if bias.low_percent is not None and bias.high_percent is not None:
        span = f", between {bias.low_percent:+.1f} % and {bias.high_percent:+.1f} %"
    side = "high" if bias.percent >= 0 else "low"
    return f"Projections of this run were {abs(bias.percent):.1f} % too {side} on average over {samples}{span}."


def flag_words(flag: str) -> str:
    """Return what a flag of a figure means; a flag that nobody knows is returned as it is.

    >>> flag_words("modelled:expertCommunication")
    'Expert communication was not timed but modelled.'
    """
    if flag in _FLAGS:
        return _FLAGS[flag]
    prefix, _, name = flag.partition(":")
    if prefix not in _PREFIXES or not name:
        return flag
    text = _PREFIXES[prefix].format(words_of(name))
    return text[:1].upper() + text[1:]
