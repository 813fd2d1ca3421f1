"""The LLM's share of the rounds: shrinks while it loses to the surrogate, recovers when it wins."""

from collections.abc import Sequence

import pytest

from tests.support.builders import a_problem, an_llm, settings_of
from tests.support.records import an_advice
from tunewright.domain.training_config import TrainingConfig
from tunewright.planner.candidates import Candidate, Evaluation
from tunewright.planner.decisions import AskAdvisor, Judge, Origin, ProposedBy
from tunewright.planner.records import Advice
from tunewright.planner.rounds import outcome
from tunewright.planner.settings import ExploreSettings, PlannerSettings
from tunewright.planner.share import Share, llm_share
from tunewright.planner.state import AskedRound, RunState

Figure = tuple[str, float | None]
"""Who had a round, and the best that came of it; None: nothing was worth a trial."""


def settings(percent: int = 50) -> PlannerSettings:
    return settings_of(a_problem(), llm=an_llm(), explore=ExploreSettings(llm_share_percent=percent))


class Projected(Candidate):
    """A candidate of which only the figure matters."""

    @property
    def projected(self) -> float:
        return self.estimated


def candidate(number: int, figure: float) -> Candidate:
    return Projected(
        config=TrainingConfig(micro_batch_size=number + 1),
        row=None,
        origin=Origin(phase="explore", proposed_by="surrogate", round=number),
        trial=f"t{number:04d}",
        estimated=figure,
        projection=None,
        interval=None,
        corrected=None,
        reused=False,
        measurement=None,
    )


def a_history(*rounds: Figure, seed: float = 100.0) -> tuple[RunState, Evaluation]:
    state, known = RunState(), [candidate(0, seed)]
    for number, (owner, figure) in enumerate(rounds, start=1):
        proposed_by: ProposedBy = "llm" if owner == "llm" else "surrogate"
        judge = Judge(
            config=None,
            verdict="unreadable",
            message="",
            origin=Origin(phase="explore", proposed_by=proposed_by, round=number),
        )
        state.proposals.append(judge)
        state.by_round[number] = [judge]
        if owner in ("llm", "failed", "awaited"):
            ask = AskAdvisor(round=number, proposals=1, reserved_tokens=0)
            state.asked[number] = AskedRound(ask, _advice(owner))
        if figure is not None:
            known.append(candidate(number, figure))
    return state, Evaluation(tuple(known), None, TrainingConfig())


def _advice(owner: str) -> Advice | None:
    if owner == "awaited":
        return None
    return an_advice(1, outcome="answered" if owner == "llm" else "failed")


def share_after(*rounds: Figure, percent: int = 50) -> Share:
    return llm_share(settings(percent), *a_history(*rounds))


def owners(outcomes: Sequence[float | None], surrogate: float, percent: int = 50) -> list[str]:
    """Let rounds go to whom the share gives them; the LLM's n-th round has the n-th outcome, the last one repeats."""
    rounds: list[Figure] = []
    for _ in range(40):
        if share_after(*rounds, percent=percent).is_turn_of_llm:
            taken = sum(owner == "llm" for owner, _ in rounds)
            rounds.append(("llm", outcomes[min(taken, len(outcomes) - 1)]))
        else:
            rounds.append(("surrogate", surrogate))
    return [owner for owner, _ in rounds]


def test_the_llm_begins_and_gets_half_while_it_keeps_up() -> None:
    assert owners([120.0], surrogate=120.0)[:6] == ["llm", "surrogate"] * 3
    assert owners([120.0], surrogate=120.0).count("llm") == 20


def test_an_llm_that_keeps_losing_gets_a_tenth() -> None:
    taken = owners([90.0], surrogate=120.0)
    assert taken[:8].count("llm") <= 3
    assert taken[10:].count("llm") == 3
    assert share_after(*[(owner, 90.0 if owner == "llm" else 120.0) for owner in taken]).percent == 10


def test_an_llm_that_wins_again_gets_its_share_back() -> None:
    taken = owners([90.0, 90.0, 130.0], surrogate=120.0)
    assert taken[20:].count("llm") == 10


def test_answers_without_a_trial_lose() -> None:
    assert share_after(("surrogate", 110.0), ("llm", None), ("llm", None)).percent == 10


@pytest.mark.parametrize("percent", [0, 5, 10])
def test_a_share_below_a_tenth_stays(percent: int) -> None:
    assert share_after(("surrogate", 110.0), ("llm", 90.0), ("llm", 90.0), percent=percent).percent == percent


def test_failures_and_open_questions_say_nothing_about_the_proposals() -> None:
    share = share_after(("failed", 110.0), ("awaited", None), ("surrogate", 110.0))
    assert (share.percent, "can be compared yet" in share.reason) == (50, True)


def test_rounds_that_a_silent_llm_could_not_use_are_not_saved_up() -> None:
    waiting = share_after(*[("surrogate", 110.0)] * 30)
    assert waiting.credit == 100


def test_the_reason_names_the_lost_round_and_its_figure() -> None:
    share = share_after(("surrogate", 110.0), ("llm", 120.0), ("surrogate", 125.0), ("llm", 90.0))
    assert "1 of 2 rounds of the LLM" in share.reason
    assert "22 % instead of 50 %" in share.reason
    assert "round 4 lost with best 90 tokens/s/GPU" in share.reason


@pytest.mark.parametrize(
    ("rounds", "expected"),
    [
        ([("llm", 120.0)], "won"),
        ([("llm", 100.05)], "open"),
        ([("llm", 90.0)], "open"),
        ([("llm", None)], "lost"),
        ([("llm", 110.0), ("surrogate", 120.0)], "lost"),
        ([("llm", 120.0), ("surrogate", 110.0)], "won"),
        ([("llm", 119.95), ("surrogate", 120.0)], "won"),
    ],
    ids=["improved", "tie", "worse without rival", "nothing", "worse", "better", "as good"],
)
def test_a_round_is_compared_with_the_surrogates_beside_it(rounds: list[Figure], expected: str) -> None:
    state, evaluation = a_history(*rounds)
    best = {item.origin.round: item.projected or 0.0 for item in evaluation.candidates}
    assert outcome(state, best, 1) == expected
