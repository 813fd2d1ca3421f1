"""`tunewright why LEDGER TRIAL`: one decision in words and numbers."""

from collections.abc import Iterator
from pathlib import Path

from tunewright.adapters.ledger.file import read_ledger
from tunewright.cli.console import output, print_json
from tunewright.cli.tables import table
from tunewright.planner.decisions import ProposedBy
from tunewright.planner.why import Ended, Explanation, Question, explain_trial
from tunewright.units import format_seconds

_PROPOSERS: dict[ProposedBy, str] = {
    "baseline": "the baseline",
    "sweep": "the sweep",
    "surrogate": "the surrogate",
    "llm": "the LLM",
    "validation": "the validation",
}
MOST_REUSED = 5


def run_why(path: Path, trial: str, *, json_output: bool) -> None:
    """Print the explanation, one line for each thing that there is to say."""
    found = explain_trial(read_ledger(path), trial)
    if json_output:
        print_json(found.to_json())
        return
    output.print(f"{found.trial}  {found.kind}  {found.configuration}", soft_wrap=True, markup=False)
    made = table("", "")
    made.show_header = False
    for name, text in _told(found):
        made.add_row(name, text)
    output.print(made, markup=False)


def _told(found: Explanation) -> Iterator[tuple[str, str]]:
    origin = found.origin
    place = f", round {origin.round}" if origin.round else ""
    yield "proposed by", f"{_PROPOSERS[origin.proposed_by]} ({origin.phase}{place}; line {found.line}, {found.at})"
    yield "because", origin.reason or "no reason was given"
    if (chosen := origin.acquisition) is not None:
        yield (
            "acquisition",
            f"mean {chosen.mean_tokens_per_second_per_gpu:,.0f} tokens/s/GPU, sigma {chosen.sigma:.1%}, "
            f"expected improvement {chosen.expected_improvement:.5f} in log units",
        )
    if found.question is not None:
        yield from _question(found.question)
    yield "known then", _known(found)
    yield (
        "verdict",
        f"tried: legal, within memory, not known yet; {found.reserved_gpu_seconds:,.0f} GPU s reserved",
    )
    for one in found.ended:
        yield f"attempt {one.attempt}", _attempt(found, one)
    yield from _figures(found)


def _question(question: Question) -> Iterator[tuple[str, str]]:
    if question.hypothesis:
        yield "hypothesis", question.hypothesis
    usage = question.usage
    yield (
        "asked",
        f"{question.model}: {question.proposals} proposals for {usage.input_tokens:,} + {usage.output_tokens:,} "
        f"tokens, {usage.cost_usd:.4f} USD, {question.latency_seconds:.1f} s; prompt {question.prompt_digest[:16]}",
    )


def _known(found: Explanation) -> str:
    known, best = found.known, found.known.best_projected
    incumbent = f", the best {best.projected:,.0f} tokens/s/GPU (from {best.trial})" if best else ""
    return (
        f"{known.trials_ended} trials ended, {known.proposals_judged} proposals judged, "
        f"{known.projections} configurations projected{incumbent}; "
        f"{known.gpu_hours:.2f} GPU hours used or reserved, {format_seconds(known.elapsed_seconds)}"
    )


def _attempt(found: Explanation, ended: Ended) -> str:
    outcome = f"failed, {ended.failure}: {ended.message}" if ended.failure else f"{found.kind}d"
    if ended.stopped_early:
        outcome += f", stopped early after {ended.stopped_early} steps"
    answered = f", answered by {ended.recorded_from} of the repeated ledger" if ended.recorded_from else ""
    place = f" on {ended.node}" if ended.node else ""
    label = ", simulated" if ended.simulated and ended.node != "simulated" else ""
    return f"{outcome}{place}{label}{answered}; {ended.gpu_seconds:,.0f} GPU s (line {ended.line})"


def _figures(found: Explanation) -> Iterator[tuple[str, str]]:
    if (figure := found.projected) is not None:
        yield (
            "projected",
            f"{figure.projected:,.0f} tokens/s/GPU, {figure.low:,.0f} to {figure.high:,.0f}, from the profile of "
            f"{figure.trial} (line {found.projected_line})",
        )
    if found.measured:
        figures = ", ".join(f"{value:,.0f}" for value in found.measured)
        yield "measured", f"{figures} tokens/s/GPU by {', '.join(found.measured_by)}"
    if found.bias_percent is not None:
        yield "bias", f"{found.bias_percent:+.1f} %: projected over measured"
    if found.reused_by:
        more = f" and {len(found.reused_by) - MOST_REUSED} more" if len(found.reused_by) > MOST_REUSED else ""
        yield "reused for", "; ".join(found.reused_by[:MOST_REUSED]) + more
