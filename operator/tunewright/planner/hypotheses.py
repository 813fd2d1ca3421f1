"""What became of the LLM's hypotheses: each is judged by the configurations that it proposed to test it.

Called by the summary and by the briefing, which shows the LLM how its earlier ideas fared. The rule: a hypothesis is
confirmed when the best of its configurations beats the incumbent that it was stated for by more than noise, refuted
when all of them are known and none does, untested when none of them could be tried. A measurement counts before a
projection, where both sides have one.
"""

import math
from typing import Literal

from pydantic import Field

from tunewright.domain.value import Value
from tunewright.planner.candidates import Candidate, Evaluation
from tunewright.planner.decisions import Judge
from tunewright.planner.evaluation import LEAST_SPREAD
from tunewright.planner.records import Hypothesis
from tunewright.planner.state import AskedRound, Proposal, RunState

NOISE = math.sqrt(2) * LEAST_SPREAD
"""Relative gain that a difference of two readings must exceed, each of which varies by `LEAST_SPREAD`."""

HypothesisStatus = Literal["open", "confirmed", "refuted", "untested"]


class TrackedHypothesis(Value):
    """One hypothesis and what its trials said."""

    round: int
    axes: tuple[str, ...] = Field(description="Fields in camelCase, as the LLM named them.")
    mechanism: str
    expected_gain_percent: float | None = None
    status: HypothesisStatus
    gain_percent: float | None = Field(None, description="Best of its configurations over the incumbent of its round.")
    kind: Literal["projected", "measured"] | None = Field(None, description="What the gain compares.")
    trials: tuple[str, ...] = Field((), description="Trials that its figures rest on.")
    reason: str


def tracked_hypotheses(state: RunState, evaluation: Evaluation) -> tuple[TrackedHypothesis, ...]:
    """Return every hypothesis of the run, in the order in which they were stated."""
    return tuple(
        _tracked(hypothesis, asked, _tests(state, asked, place), state, evaluation)
        for _, asked in sorted(state.asked.items())
        for place, hypothesis in enumerate(asked.advice.hypotheses if asked.advice else (), start=1)
    )


_Tests = tuple[list[Proposal], int]
"""What was decided of the configurations that test a hypothesis, and how many of them are not decided yet."""


def _tests(state: RunState, asked: AskedRound, place: int) -> _Tests:
    """Proposals of a round are decided in their order, so the k-th decision belongs to the k-th proposal."""
    advised = asked.advice.proposals if asked.advice else ()
    decided = [item for item in state.proposals_of(asked.ask.round) if item.origin.proposed_by == "llm"]
    mine = [decision for proposal, decision in zip(advised, decided, strict=False) if proposal.hypothesis == place]
    return mine, sum(proposal.hypothesis == place for proposal in advised) - len(mine)


def _tracked(
    hypothesis: Hypothesis, asked: AskedRound, tests: _Tests, state: RunState, evaluation: Evaluation
) -> TrackedHypothesis:
    decided, undecided = tests
    known = [found for item in decided if (found := _figure_of(item, evaluation))]
    incumbent = evaluation.by_config.get(asked.ask.incumbent or evaluation.baseline_config)
    gain, kind = _best_gain(known, incumbent)
    waiting = undecided + sum(_is_running(item, state) for item in decided)
    status, reason = _judged(gain, waiting, decided)
    return TrackedHypothesis(
        round=asked.ask.round,
        axes=hypothesis.axes,
        mechanism=hypothesis.mechanism,
        expected_gain_percent=hypothesis.expected_gain_percent,
        status=status,
        gain_percent=None if gain is None else round(100 * gain, 2),
        kind=kind,
        trials=tuple(dict.fromkeys(item.trial for item in known)),
        reason=reason,
    )


def _figure_of(item: Proposal, evaluation: Evaluation) -> Candidate | None:
    """Return what is known of a tested configuration, whoever proposed it first."""
    candidate = evaluation.by_config.get(item.config) if item.config is not None else None
    return candidate if candidate is not None and candidate.projected else None


def _is_running(item: Proposal, state: RunState) -> bool:
    return not isinstance(item, Judge) and state.trials[item.trial].running


def _best_gain(
    known: list[Candidate], incumbent: Candidate | None
) -> tuple[float | None, Literal["projected", "measured"] | None]:
    if incumbent is None or not incumbent.projected or not known:
        return None, None
    base = incumbent.measurement
    measured = [item.measurement for item in known if item.measurement is not None]
    if base is not None and measured:
        best = max(item.tokens_per_second_per_gpu for item in measured)
        return best / base.tokens_per_second_per_gpu - 1, "measured"
    return max(item.projected or 0.0 for item in known) / incumbent.projected - 1, "projected"


def _judged(gain: float | None, waiting: int, decided: list[Proposal]) -> tuple[HypothesisStatus, str]:
    if gain is not None and gain > NOISE:
        return "confirmed", f"{gain:+.1%} over the incumbent of its round, beyond the noise of {NOISE:.1%}"
    if waiting:
        return "open", f"{waiting} of its configurations are not known yet"
    if gain is not None:
        return "refuted", f"{gain:+.1%} over the incumbent of its round, not beyond the noise of {NOISE:.1%}"
    verdicts = [item.verdict if isinstance(item, Judge) else "failed" for item in decided]
    told = ", ".join(dict.fromkeys(verdicts)) or "no configuration tests it"
    return "untested", told
