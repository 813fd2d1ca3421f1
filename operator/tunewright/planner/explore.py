"""The second phase: combinations of axes, proposed in rounds by the LLM and by the surrogate. Called by `decide`.

A round belongs to one of the two; the LLM gets the share of them that `share` works out. It is asked as soon as the
rounds before are decided, while their trials run, and while it thinks the surrogate goes on with what is its own share:
only then is the answer waited for. A round whose advice failed or was lost is taken over by the surrogate. After two
failures in a row the LLM is asked again only after three rounds without it, so that an endpoint that recovers is used
and one that does not costs little.
"""

from functools import cached_property

import numpy as np

from tunewright.domain.axes import describe
from tunewright.errors import InvalidInput
from tunewright.planner import budget
from tunewright.planner.briefing import briefing
from tunewright.planner.changes import read_changes, with_changes
from tunewright.planner.decisions import AskAdvisor, Origin, ProposedBy, StartTrial
from tunewright.planner.follow_up import follow_up
from tunewright.planner.observations import acquisition_of, surrogate_of
from tunewright.planner.records import ProposedConfig
from tunewright.planner.seed import PRUNING_MARGIN
from tunewright.planner.share import Share, llm_share
from tunewright.planner.state import AskedRound
from tunewright.planner.stopping import EXPLORED, first_reason, out_of_time
from tunewright.planner.turn import Turn
from tunewright.search.neighbourhood import nearest
from tunewright.search.surrogate import Scored, Surrogate
from tunewright.units import format_speed

FAILURES_BEFORE_PAUSE = 2
PAUSED_ROUNDS = 3
HOPELESS_SIGMAS = 3
"""A proposal of the LLM is pruned when it would lose even at this many standard deviations above expectation.

And at `PRUNING_MARGIN` above it: the surrogate is too sure of itself before it has seen the model err.
"""
LEAST_EXPECTED_IMPROVEMENT = 0.0005
"""Proposals that promise less than this share over the best known are not worth a trial."""

BUDGET_IS_USED = "the budget allows no further profile trial"
"""Why exploring ended, where it was not done: the run's end then says so too."""


def explore(turn: Turn) -> str:
    """Decide the next proposals; return why exploring is over, or nothing while it goes on."""
    follow_up(turn)
    if turn.decisions:
        return ""
    reason = _go_on(turn)
    if turn.decisions or turn.snapshot.state.running:
        return ""
    return reason if not _is_answer_awaited(turn) or out_of_time(turn) else ""


def _go_on(turn: Turn) -> str:
    """Continue the oldest round that is not decided to its end, else begin one; return why neither is possible."""
    for number in range(1, turn.snapshot.state.explore_round + 1):
        if _left_in_round(turn, number):
            return _continue(turn, number)
    if reason := first_reason(EXPLORED, turn):
        return reason
    return _begin(turn, turn.snapshot.state.explore_round + 1)


def _is_answer_awaited(turn: Turn) -> bool:
    return any(asked.advice is None for asked in turn.snapshot.state.asked.values())


def _left_in_round(turn: Turn, number: int) -> int:
    """Return how many proposals of a round are not decided yet; none while its answer is awaited."""
    asked = turn.snapshot.state.asked.get(number)
    if asked is None or asked.failed:
        return turn.snapshot.settings.explore.proposals_per_round - _decided(turn, number, "surrogate")
    return len(asked.advice.proposals) - _decided(turn, number, "llm") if asked.advice else 0


def _decided(turn: Turn, number: int, proposed_by: ProposedBy) -> int:
    """Count the decided proposals of a round. What a profile said about its neighbours is nobody's proposal."""
    mine = [item for item in turn.snapshot.state.proposals_of(number) if item.origin.proposed_by == proposed_by]
    return sum(proposed_by == "llm" or isinstance(item, StartTrial) for item in mine)


def _continue(turn: Turn, number: int) -> str:
    asked = turn.snapshot.state.asked.get(number)
    if asked is not None and not asked.failed:
        return _judge_advice(turn, number, asked)
    return _surrogate_round(turn, number)


def _begin(turn: Turn, number: int) -> str:
    share = llm_share(turn.snapshot.settings, turn.snapshot.state, turn.evaluation)
    if share.is_turn_of_llm and _may_ask(turn, number):
        if _is_answer_awaited(turn):
            return ""  # one question at a time
        if ask := _question(turn, number, share):
            turn.decisions.append(ask)
            return ""
    return _surrogate_round(turn, number) if turn.free_slots > 0 else ""


def _may_ask(turn: Turn, number: int) -> bool:
    """Tell whether there is an LLM, whose last answers were of use, and a trial that its proposals could have."""
    settings, asked = turn.snapshot.settings, turn.snapshot.state.asked
    if settings.llm is None or settings.explore.strategy != "LLM" or not turn.may_profile():
        return False
    latest = [asked[key] for key in sorted(asked)][-FAILURES_BEFORE_PAUSE:]
    paused = len(latest) == FAILURES_BEFORE_PAUSE and all(item.failed for item in latest)
    return not paused or number - max(asked) > PAUSED_ROUNDS


def _question(turn: Turn, number: int, share: Share) -> AskAdvisor | None:
    """Return the question of a round, or None when the LLM budget does not cover it."""
    snapshot = turn.snapshot
    calls = min(budget.CALLS_PER_ROUND, budget.llm_calls_left(snapshot))
    if snapshot.settings.llm is None or calls < 1:
        return None
    reservation = budget.llm_reservation(snapshot.settings.llm, briefing(snapshot), calls)
    if not budget.affords_llm(snapshot, reservation):
        return None
    incumbent = turn.evaluation.best_projected
    return AskAdvisor(
        round=number,
        proposals=snapshot.settings.explore.proposals_per_round,
        max_calls=reservation.calls,
        reserved_tokens=reservation.tokens,
        reserved_cost_usd=reservation.cost_usd,
        incumbent=incumbent.config if incumbent else snapshot.settings.baseline,
        reason=share.reason,
    )


def _judge_advice(turn: Turn, number: int, asked: AskedRound) -> str:
    """Decide the proposals of an answer in their order, until a slot or the answer of a trial is missing."""
    proposals = asked.advice.proposals if asked.advice else ()
    hopeless = _Hopeless(turn)
    for proposal in proposals[_decided(turn, number, "llm") :]:
        outcome = _judge_proposal(turn, asked, proposal, hopeless)
        if outcome == "no-budget":
            return BUDGET_IS_USED
        if outcome in ("no-slot", "waits"):
            return ""
    return ""


def _judge_proposal(turn: Turn, asked: AskedRound, proposal: ProposedConfig, hopeless: "_Hopeless") -> str:
    """Apply the changes to what was the incumbent when the LLM was asked: that is what they were made for."""
    origin = Origin(phase="explore", proposed_by="llm", round=asked.ask.round, reason=proposal.reason)
    try:
        changes = read_changes(proposal.changes)
        config = with_changes(turn.snapshot.problem, asked.ask.incumbent or turn.snapshot.settings.baseline, changes)
    except InvalidInput as error:
        return turn.judge(None, "unreadable", str(error), origin)
    space = turn.snapshot.space
    if space.row_of(config) is None:
        repaired = nearest(space, config, changes, main_repairs=0)
        config = space.config(repaired.row) if repaired else config
    return turn.consider(config, origin, hopeless.reason)


class _Hopeless:
    """Says which rows are not worth a trial by what the surrogate has learnt; it learns at the first question."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn

    @cached_property
    def _surrogate(self) -> Surrogate:
        return surrogate_of(self._turn)

    def reason(self, row: int) -> str:
        """Return why a row cannot win, or nothing."""
        best = self._turn.evaluation.best_projected
        scored = self._surrogate.score(np.array([row]))[0]
        expected = scored.mean_tokens_per_second_per_gpu
        highest = expected * max(np.exp(scored.sigma * HOPELESS_SIGMAS), 1 / (1 - PRUNING_MARGIN))
        if best is None or best.projected is None or highest >= best.projected:
            return ""
        return (
            f"expected {format_speed(expected)} tokens/s/GPU ± {scored.sigma:.1%}, at most {format_speed(highest)}: "
            f"below the best known ({format_speed(best.projected)}), cannot win"
        )


def _surrogate_round(turn: Turn, number: int) -> str:
    """Decide the surrogate's proposals of a round; return why there is none."""
    chosen = _chosen(turn, _left_in_round(turn, number))
    for item in chosen:
        if item.expected_improvement < LEAST_EXPECTED_IMPROVEMENT:
            break
        outcome = turn.consider(turn.snapshot.space.config(item.row), _surrogate_origin(turn, number, item))
        if outcome in ("no-slot", "no-budget"):
            break
    if not turn.may_profile():
        return BUDGET_IS_USED
    left = np.expm1(chosen[0].expected_improvement) if chosen else 0.0
    return f"the expected improvement left is {left:.3%}, below {LEAST_EXPECTED_IMPROVEMENT:.2%}"


def _chosen(turn: Turn, wanted: int) -> list[Scored]:
    if not turn.may_profile() or turn.free_slots <= 0:
        return []
    pending = [turn.snapshot.space.row_of(trial.config) for trial in turn.snapshot.state.running]
    rows = [row for row in pending if row is not None]
    return surrogate_of(turn).propose(turn.open_rows(), rows, min(wanted, turn.free_slots))


def _surrogate_origin(turn: Turn, number: int, item: Scored) -> Origin:
    speed = format_speed(item.mean_tokens_per_second_per_gpu)
    reason = (
        f"{describe(turn.snapshot.space.config(item.row))}: expected {speed} tokens/s/GPU "
        f"± {item.sigma:.1%}, expected improvement {np.expm1(item.expected_improvement):.2%}"
    )
    return Origin(
        phase="explore", proposed_by="surrogate", round=number, reason=reason, acquisition=acquisition_of(item)
    )
