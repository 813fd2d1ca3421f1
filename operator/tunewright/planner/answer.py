"""The result of a run in one sentence. Called by `summary`; people read it first and often nothing else."""

from tunewright.planner.figures import BestMeasured, BestProjected, BiasFigure, Improvement
from tunewright.planner.settings import PlannerSettings
from tunewright.units import format_speed


def answer_of(
    settings: PlannerSettings,
    measured: BestMeasured | None,
    projected: BestProjected | None,
    bias: BiasFigure | None,
    *,
    simulated: bool,
) -> str:
    """Return what was found so far, each figure with its kind; `simulated` comes first where it holds."""
    if measured is not None:
        text = _measured(settings, measured) + _loss(measured)
        text += f"; projected {format_speed(measured.projected)}" if measured.projected else ""
        text += f", bias {bias.percent:+.1f} % ({_samples(bias.samples)})" if bias else ""
    elif projected is not None:
        text = _projected(settings, projected)
    else:
        return "nothing is known yet"
    return f"simulated: {text}" if simulated else text


def _measured(settings: PlannerSettings, best: BestMeasured) -> str:
    interval = f"n={best.repeats}, {format_speed(best.interval_low)} to {format_speed(best.interval_high)}"
    gains = _gains(settings, best.improvement_percent)
    return f"measured {format_speed(best.tokens_per_second_per_gpu)} tokens/s/GPU ({interval}){gains}"


def _loss(best: BestMeasured) -> str:
    """Return a warning where the winner does not train like the baseline."""
    parity = best.loss_parity
    if parity is None or parity.agrees:
        return ""
    allowed = f"{parity.largest_difference:.1%}, more than {parity.tolerance:.0%}"
    return f", but its loss differs from the baseline's by {allowed}"


def _projected(settings: PlannerSettings, best: BestProjected) -> str:
    interval = f"{format_speed(best.interval_low)} to {format_speed(best.interval_high)}"
    gains = _gains(settings, best.improvement_percent)
    return (
        f"projected {format_speed(best.tokens_per_second_per_gpu)} tokens/s/GPU ({interval}){gains}; not measured yet"
    )


def _gains(settings: PlannerSettings, gain: Improvement) -> str:
    text = f", {gain.over_baseline:+.1f} % over baseline" if gain.over_baseline is not None else ""
    if gain.over_reference is None:
        return text
    precision = settings.reference.precision if settings.reference else ""
    return text + f", {gain.over_reference:+.1f} % over reference" + (f" ({precision})" if precision else "")


def _samples(count: int) -> str:
    return "1 sample" if count == 1 else f"{count} samples"
