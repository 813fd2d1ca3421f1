"""What a ledger tells about a run afterwards: strict replay, explanations, comparisons, cut texts."""

from functools import cache

import pytest

from tests.support.builders import a_problem, an_llm, settings_of, small_space
from tests.support.planning import Run, World, hidden_effect
from tests.support.records import AT
from tunewright.errors import InvalidInput
from tunewright.planner import decide as decide_module
from tunewright.planner.comparison import run_figures
from tunewright.planner.decide import decide
from tunewright.planner.decisions import AskAdvisor, Judge, StartTrial
from tunewright.planner.records import (
    MOST_ADVICE_BYTES,
    MOST_KEPT_BYTES,
    Advice,
    AdviceUsage,
    Hypothesis,
    ProjectedFigure,
    ProposedConfig,
    Record,
    Round,
    cut_text,
    fitting,
    kept_exchanges,
    record_line,
)
from tunewright.planner.replay import replay, replay_projections
from tunewright.planner.settings import Budget, ExploreSettings
from tunewright.planner.why import explain_trial

HYPOTHESIS = Hypothesis(axes=("tensorParallelSize",), mechanism="fewer collectives", expected_gain_percent=3.0)


def advises(ask: AskAdvisor) -> Advice:
    """Propose two configurations in each round, the first of which tests a hypothesis."""
    changes = ({"tp": 8}, {"mbs": 2, "pp": 2}, {"mbs": 8, "recompute": "selective"}, {"tp": 2, "mbs": 8})
    return Advice(
        round=ask.round,
        outcome="answered",
        hypotheses=(HYPOTHESIS,),
        proposals=(
            ProposedConfig(changes=changes[(2 * ask.round) % 4], reason="less to send", hypothesis=1),
            ProposedConfig(changes=changes[(2 * ask.round + 1) % 4], reason="fuller GEMMs"),
        ),
        model="openai/scripted",
        provider="openai",
        prompt_digest="f" * 64,
        usage=AdviceUsage(input_tokens=1000, output_tokens=100, cost_usd=0.002),
        latency_seconds=1.5,
        at=AT,
    )


@cache
def searched(*, with_llm: bool) -> Run:
    changes = (
        {"llm": an_llm(), "explore": ExploreSettings(patience=2, proposals_per_round=2, llm_share_percent=100)}
        if with_llm
        else {}
    )
    chosen = settings_of(a_problem(), budget=Budget(max_trials=6), **changes)
    effect = hidden_effect(3, 0.1, "tensor_parallel_size", "micro_batch_size", "pipeline_schedule")
    world = World(a_problem(), chosen, profile_factor=effect, measure_factor=effect, advises=advises)
    return Run.of(world, small_space()).to_end()


def changed(records: list[Record], line: int, **update: object) -> list[Record]:
    return [*records[: line - 1], records[line - 1].model_copy(update=update), *records[line:]]


def test_a_changed_projection_is_named_with_line_trial_and_both_numbers() -> None:
    records = searched(with_llm=False).records
    line, record = next((n, r) for n, r in enumerate(records, 1) if isinstance(r, Round) and r.projections)
    figure = record.projections[0]
    forged = figure.model_copy(update={"projected": figure.projected * 1.01})
    found = replay_projections(changed(records, line, projections=(forged, *record.projections[1:])), small_space())
    assert found is not None
    assert (found.line, found.field) == (line, f"projections[0].projected of {figure.trial}")
    assert found.recorded == pytest.approx(1.01 * found.derived)


def test_a_projection_that_is_missing_is_named() -> None:
    records = searched(with_llm=False).records
    line = next(n for n, r in enumerate(records, 1) if isinstance(r, Round) and r.projections)
    found = replay_projections(changed(records, line, projections=()), small_space())
    assert found is not None
    assert (found.line, found.field, found.recorded) == (line, "projections", "0 projections")


def test_another_device_gives_another_first_number() -> None:
    run = searched(with_llm=False)
    problem = run.world.problem
    slower = problem.cluster.network.model_copy(update={"bytes_per_second_per_gpu": 1e9})
    other = problem.model_copy(update={"cluster": problem.cluster.model_copy(update={"network": slower})})
    assert replay_projections(run.records, small_space()) is None
    found = replay_projections(run.records, small_space(), other)
    assert found is not None
    assert found.recorded > found.derived


def test_every_configuration_that_was_projected_is_recorded_once() -> None:
    run = searched(with_llm=True)
    recorded = [figure for record in run.records if isinstance(record, Round) for figure in record.projections]
    keys = [(figure.trial, figure.config_digest) for figure in recorded]
    assert len(set(keys)) == len(keys)
    reused = sum(judge.verdict == "reused" for judge in run.state.judged)
    assert len(keys) == reused + sum(trial.report is not None for trial in run.state.profiles)


def test_proposals_of_the_surrogate_carry_what_it_expected() -> None:
    starts = [item for item in searched(with_llm=False).state.proposals if isinstance(item, StartTrial)]
    chosen = [item.origin.acquisition for item in starts if item.origin.proposed_by == "surrogate"]
    assert chosen
    assert all(item is not None and item.sigma > 0 and item.expected_improvement > 0 for item in chosen)


def test_a_trial_of_the_surrogate_is_explained_by_what_was_known_before_it() -> None:
    run = searched(with_llm=False)
    trial = next(t for t in run.state.trials.values() if t.origin.proposed_by == "surrogate")
    found = explain_trial(run.records, trial.name)
    decided = run.records[found.line - 1]
    assert isinstance(decided, Round) and trial.start in decided.decisions
    before = [f for r in run.records[: found.line - 1] if isinstance(r, Round) for f in r.projections]
    assert found.known.projections == len(before)
    assert found.known.best_projected == max(before, key=lambda figure: figure.projected)
    assert found.origin.acquisition is not None
    assert found.projected is not None and found.projected.trial == trial.name
    assert found.ended[0].failure is None


def test_a_measured_trial_is_explained_with_its_bias() -> None:
    run = searched(with_llm=False)
    trial = run.state.measurements[0]
    found = explain_trial(run.records, trial.name)
    assert found.kind == "measure"
    assert found.measured_by == (trial.name,)
    assert found.projected is not None and found.bias_percent is not None
    assert found.bias_percent == pytest.approx(100 * (found.projected.projected / found.measured[0] - 1), abs=0.01)


def test_a_trial_of_the_llm_is_explained_with_its_hypothesis_and_cost() -> None:
    run = searched(with_llm=True)
    trial = next(t for t in run.state.trials.values() if t.origin.proposed_by == "llm")
    question = explain_trial(run.records, trial.name).question
    assert question is not None
    assert question.usage.input_tokens == 1000
    assert (question.latency_seconds, question.provider, question.prompt_digest) == (1.5, "openai", "f" * 64)
    assert question.hypothesis == "tensorParallelSize: fewer collectives, expected +3.0 %"


def test_an_unknown_trial_is_refused_with_those_there_are() -> None:
    with pytest.raises(InvalidInput, match=r"t0099.*it has t0001 to t00"):
        explain_trial(searched(with_llm=False).records, "t0099")


def test_the_best_after_n_trials_never_falls_and_ends_at_the_best_projection() -> None:
    run = searched(with_llm=False)
    figures = run_figures(run.records, (0, 1, 3, 6, 12, 100))
    found = [item.projected for item in figures.best_after]
    assert found[0] is None, "nothing is projected before a trial"
    known = [value for value in found if value is not None]
    assert known == sorted(known) and len(known) == 5
    everything = [f.projected for r in run.records if isinstance(r, Round) for f in r.projections]
    assert known[-1] == max(everything)
    assert known[0] == next(r.projections[0].projected for r in run.records if isinstance(r, Round) and r.projections)


def test_costs_and_hypotheses_of_an_llm_are_summed_up() -> None:
    run = searched(with_llm=True)
    figures = run_figures(run.records, (5,))
    asked = len(run.state.asked)
    assert asked > 0
    assert figures.model == an_llm().model
    assert figures.llm_tokens == 1100 * asked
    assert figures.llm_cost_usd == pytest.approx(0.002 * asked)
    assert figures.llm_seconds == 1.5 * asked
    assert sum(item.count for item in figures.hypotheses) == asked
    assert run_figures(searched(with_llm=False).records, (5,)).hypotheses == ()


def test_a_round_that_would_not_fit_in_a_shard_is_decided_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = searched(with_llm=False)
    monkeypatch.setattr(decide_module, "MOST_ROUND_BYTES", 4000)
    run = Run.of(whole.world, small_space()).to_end()
    rounds = [record for record in run.records if isinstance(record, Round)]
    assert len(rounds) > sum(isinstance(record, Round) for record in whole.records)
    assert all(len(item.decisions) == 1 or len(record_line(item)) < 7000 for item in rounds)
    assert replay(run.records, small_space()) is None
    judged = [(judge.config, judge.verdict) for judge in run.state.judged]
    assert judged == [(judge.config, judge.verdict) for judge in whole.state.judged]
    assert run.state.trials.keys() == whole.state.trials.keys()
    assert decide(run.snapshot()) == ()


@pytest.mark.parametrize("text", ["x" * 40_000, "大" * 20_000, "😀" * 20_000], ids=["ascii", "three", "four"])
def test_a_long_answer_is_cut_with_its_length_and_digest(text: str) -> None:
    kept = cut_text(text)
    assert f"(cut: {len(text.encode())} bytes, sha256 " in kept
    assert len(kept.encode()) < MOST_KEPT_BYTES + 120
    assert cut_text(text[:100]) == text[:100]


def test_all_that_was_said_in_a_round_fits_in_a_shard() -> None:
    kept = kept_exchanges([("\x00" * 200_000, "大" * 400_000)] * 12)
    assert len(kept) == 12
    assert sum(len(record_line(Advice(round=1, outcome="failed", exchanges=(one,), at=AT))) for one in kept) < (
        MOST_ADVICE_BYTES + 12 * 500
    )
    assert all("sha256" in one.prompt and "sha256" in one.answer for one in kept)


def test_an_answer_that_no_shard_could_hold_loses_its_last_proposals() -> None:
    proposals = tuple(ProposedConfig(changes={"tp": place}, reason="大" * 1000) for place in range(32))
    hypotheses = (Hypothesis(axes=("tp",), mechanism="大" * 1000),) * 32
    exchanges = kept_exchanges([("\x00" * 200_000, "大" * 400_000)] * 2)
    advice = advises(AskAdvisor(round=1, proposals=32, reserved_tokens=1)).model_copy(
        update={"proposals": proposals, "hypotheses": hypotheses[:1], "exchanges": exchanges}
    )
    kept = fitting(advice)
    assert 0 < len(kept.proposals) < 32
    assert kept.proposals == proposals[: len(kept.proposals)]
    assert kept.message.startswith(f"{32 - len(kept.proposals)} proposals were left out")
    crowded = fitting(advice.model_copy(update={"hypotheses": hypotheses}))
    assert crowded.proposals == () and len(record_line(crowded)) < 120 * 1024
    assert fitting(kept) == kept.model_copy(update={"message": kept.message})


def test_figures_are_those_of_the_projection() -> None:
    run = searched(with_llm=False)
    judge = next(item for item in run.state.judged if item.verdict == "reused")
    assert isinstance(judge, Judge) and judge.config is not None
    figures: list[ProjectedFigure] = [f for r in run.records if isinstance(r, Round) for f in r.projections]
    mine = next(f for f in figures if f.config_digest == judge.config.digest()[:16])
    assert mine.trial == judge.reused_trial
