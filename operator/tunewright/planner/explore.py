"""The second phase: combinations of axes, proposed in rounds by the LLM and by the surrogate. Called by `decide`.

A round belongs to one of the two; the LLM gets `llm_share_percent` of them. A round whose advice failed or was lost is
taken over by the surrogate. After two failures in a row the LLM is asked again only after three rounds without it, so
that an endpoint that recovers is used and one that does not costs little.
"""

import numpy as np

from tunewright.domain.axes import describe
from tunewright.errors import InvalidInput
from tunewright.planner import budget
from tunewright.planner.briefing import briefing
from tunewright.planner.changes import read_changes, with_changes
from tunewright.planner.decisions import AskAdvisor, Origin, ProposedBy, StartTrial
from tunewright.planner.follow_up import follow_up
from tunewright.planner.observations import surrogate_of
from tunewright.planner.records import ProposedConfig
from tunewright.planner.state import AskedRound
from tunewright.planner.stopping import EXPLORED, first_reason
from tunewright.planner.turn import Turn
from tunewright.search.neighbourhood import nearest
from tunewright.search.surrogate import Scored
from tunewright.units import format_speed

FAILURES_BEFORE_PAUSE = 2
PAUSED_ROUNDS = 3
LEAST_EXPECTED_IMPROVEMENT = 0.0005
"""Proposals that promise less than this share over the best known are not worth a trial."""

BUDGET_IS_USED = "the budget allows no further profile trial"
"""Why exploring ended, where it was not done: the run's end then says so too."""


def explore(turn: Turn) -> str:
    """Decide the next proposals; return why exploring is over, or nothing while it goes on."""
    state = turn.snapshot.state
    number = state.explore_round
    follow_up(turn)
    asked = state.asked.get(number)
    if turn.decisions or (asked is not None and asked.advice is None):
        return ""
    if _left_in_round(turn, number):
        return _continue(turn, number)
    if reason := first_reason(EXPLORED, turn):
        return "" if state.running else reason
    return _begin(turn, number + 1)


def _left_in_round(turn: Turn, number: int) -> int:
    """Return how many proposals of a round are not decided yet."""
    if number == 0:
        return 0
    state = turn.snapshot.state
    asked = state.asked.get(number)
    if asked is not None and asked.advice is not None and not asked.failed:
        return len(asked.advice.proposals) - _decided(turn, number, "llm")
    return turn.snapshot.settings.explore.proposals_per_round - _decided(turn, number, "surrogate")


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
    if turn.free_slots <= 0:
        return ""
    if _is_turn_of_llm(turn, number) and (ask := _question(turn, number)):
        turn.decisions.append(ask)
        return ""
    return _surrogate_round(turn, number)


def _is_turn_of_llm(turn: Turn, number: int) -> bool:
    """The LLM is due when its rounds, this one included, stay within its share, and its last answers were of use."""
    settings, asked = turn.snapshot.settings, turn.snapshot.state.asked
    if settings.llm is None or settings.explore.strategy != "LLM" or not turn.may_profile():
        return False
    if len(asked) * 100 >= settings.explore.llm_share_percent * number:
        return False
    latest = [asked[key] for key in sorted(asked)][-FAILURES_BEFORE_PAUSE:]
    paused = len(latest) == FAILURES_BEFORE_PAUSE and all(item.failed for item in latest)
    return not paused or number - max(asked) > PAUSED_ROUNDS


def _question(turn: Turn, number: int) -> AskAdvisor | None:
    """Return the question of a round, or None when the LLM budget does not cover it."""
    snapshot = turn.snapshot
    calls = min(budget.CALLS_PER_ROUND, budget.llm_calls_left(snapshot))
    if snapshot.settings.llm is None or calls < 1:
        return None
    reservation = budget.llm_reservation(snapshot.settings.llm, briefing(snapshot), calls)
    if not budget.affords_llm(snapshot, reservation):
        return None
    return AskAdvisor(
        round=number,
        proposals=snapshot.settings.explore.proposals_per_round,
        max_calls=reservation.calls,
        reserved_tokens=reservation.tokens,
        reserved_cost_usd=reservation.cost_usd,
    )


def _judge_advice(turn: Turn, number: int, asked: AskedRound) -> str:
    """Decide the proposals of an answer in their order, until a slot or the answer of a trial is missing."""
    proposals = asked.advice.proposals if asked.advice else ()
    for proposal in proposals[_decided(turn, number, "llm") :]:
        outcome = _judge_proposal(turn, number, proposal)
        if outcome == "no-budget":
            return "" if turn.snapshot.state.running or turn.started else BUDGET_IS_USED
        if outcome in ("no-slot", "waits"):
            return ""
    return ""


def _judge_proposal(turn: Turn, number: int, proposal: ProposedConfig) -> str:
    origin = Origin(phase="explore", proposed_by="llm", round=number, reason=proposal.reason)
    incumbent = turn.evaluation.best_projected
    start = incumbent.config if incumbent else turn.snapshot.settings.baseline
    try:
        changes = read_changes(proposal.changes)
        config = with_changes(turn.snapshot.problem, start, changes)
    except InvalidInput as error:
        return turn.judge(None, "unreadable", str(error), origin)
    space = turn.snapshot.space
    if space.row_of(config) is None:
        repaired = nearest(space, config, changes, main_repairs=0)
        config = space.config(repaired.row) if repaired else config
    return turn.consider(config, origin)


def _surrogate_round(turn: Turn, number: int) -> str:
    """Decide the surrogate's proposals of a round; return why there is none, when nothing runs that could change it."""
    for item in _chosen(turn, _left_in_round(turn, number)):
        outcome = turn.consider(turn.snapshot.space.config(item.row), _surrogate_origin(turn, number, item))
        if outcome in ("no-slot", "no-budget"):
            break
    if turn.decisions or turn.snapshot.state.running:
        return ""
    if not turn.may_profile():
        return BUDGET_IS_USED
    return f"no configuration is left that promises {LEAST_EXPECTED_IMPROVEMENT:.2%} or more"


def _chosen(turn: Turn, wanted: int) -> list[Scored]:
    if not turn.may_profile() or turn.free_slots <= 0:
        return []
    pending = [turn.snapshot.space.row_of(trial.config) for trial in turn.snapshot.state.running]
    rows = [row for row in pending if row is not None]
    chosen = surrogate_of(turn).propose(turn.open_rows(), rows, min(wanted, turn.free_slots))
    return [item for item in chosen if item.expected_improvement >= LEAST_EXPECTED_IMPROVEMENT]


def _surrogate_origin(turn: Turn, number: int, item: Scored) -> Origin:
    speed = format_speed(item.mean_tokens_per_second_per_gpu)
    reason = (
        f"{describe(turn.snapshot.space.config(item.row))}: expected {speed} tokens/s/GPU "
        f"± {item.sigma:.1%}, expected improvement {np.expm1(item.expected_improvement):.2%}"
    )
    return Origin(phase="explore", proposed_by="surrogate", round=number, reason=reason)
