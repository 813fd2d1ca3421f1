"""Whatever the world answers, a run ends, within its budget, and its ledger replays identically."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.builders import a_problem, an_llm, settings_of, small_space
from tests.support.planning import Run, World, hidden_effect
from tests.support.records import AT
from tunewright.planner.decisions import AskAdvisor, StartTrial
from tunewright.planner.evaluation import evaluate
from tunewright.planner.records import Advice, AdviceUsage, ProposedConfig, Round, parse_record
from tunewright.planner.replay import replay, replay_projections
from tunewright.planner.settings import Budget, ExploreSettings, PlannerSettings, ValidationSettings
from tunewright.trial_protocol.report import FailureClass

FAILURES: tuple[FailureClass | None, ...] = (
    None, None, None, None, "DeviceOutOfMemory", "NodeLost", "ResultMissing", "Timeout", "Preempted", "ImagePull",
)  # fmt: skip
CHANGES = st.dictionaries(
    st.sampled_from(["tp", "pp", "mbs", "schedule", "recompute", "vpp", "nonsense", "modules"]),
    st.sampled_from([1, 2, 3, 4, 8, "1f1b", "zero-bubble-v", "full", "none", "mlp", None, True, [1], {"a": 1}]),
    max_size=3,
)
ADVICE = st.lists(CHANGES, max_size=4)


@st.composite
def planner_settings(draw: st.DrawFn) -> PlannerSettings:
    return settings_of(
        a_problem(),
        budget=Budget(
            max_trials=draw(st.integers(1, 14)),
            max_failed_trials=draw(st.integers(0, 4)),
            max_gpu_hours=draw(st.none() | st.floats(0.1, 4)),
            max_duration_seconds=draw(st.none() | st.floats(100, 3000)),
            max_llm_calls=draw(st.integers(0, 6)),
            max_llm_tokens=draw(st.sampled_from([0, 20_000, 500_000])),
            max_llm_cost_usd=draw(st.none() | st.floats(0, 0.1)),
        ),
        explore=ExploreSettings(
            proposals_per_round=draw(st.integers(1, 4)),
            patience=draw(st.integers(1, 3)),
            llm_share_percent=draw(st.sampled_from([0, 50, 100])),
        ),
        llm=draw(st.none() | st.just(an_llm())),
        validation=ValidationSettings(
            nodes=draw(st.sampled_from([1, 2])),
            top_k=draw(st.integers(0, 3)),
            include_baseline=draw(st.booleans()),
            repeats=draw(st.integers(1, 2)),
        ),
        parallel_trials=draw(st.integers(1, 3)),
        max_attempts=draw(st.integers(1, 3)),
    )


@st.composite
def worlds(draw: st.DrawFn) -> World:
    chosen, seed = draw(planner_settings()), draw(st.integers(0, 1000))
    failures = draw(st.lists(st.sampled_from(FAILURES), min_size=1, max_size=12))
    advice = draw(st.lists(st.none() | ADVICE, min_size=1, max_size=4))

    def fails(start: StartTrial) -> FailureClass | None:
        return failures[(int(start.trial[1:]) + 5 * start.attempt + seed) % len(failures)]

    def advises(ask: AskAdvisor) -> Advice:
        changes = advice[ask.round % len(advice)]
        usage = AdviceUsage(input_tokens=900, output_tokens=100, cost_usd=0.001)
        if changes is None:
            outcome = "failed" if ask.round % 2 else "lost"
            return Advice.model_validate({"round": ask.round, "outcome": outcome, "usage": usage, "at": AT})
        proposals = tuple(ProposedConfig(changes=change) for change in changes)
        return Advice(round=ask.round, outcome="answered", proposals=proposals, usage=usage, at=AT)

    effect = hidden_effect(seed, 0.1, "tensor_parallel_size", "micro_batch_size", "pipeline_schedule")
    return World(a_problem(), chosen, profile_factor=effect, measure_factor=effect, fails=fails, advises=advises)


@settings(max_examples=40)
@given(worlds())
def test_every_run_ends_within_its_budget_and_replays(world: World) -> None:
    run = Run.of(world, small_space()).to_end()
    _is_bounded(run)
    _never_repeats(run)
    _keeps_its_budget(run)
    documents = [parse_record(record.to_json()) for record in run.records]
    assert replay(documents, small_space()) is None
    assert replay_projections(documents, small_space()) is None


@settings(max_examples=10)
@given(worlds())
def test_what_grew_with_a_run_is_what_is_found_anew(world: World) -> None:
    run = Run.of(world, small_space())
    while run.step():
        grown = evaluate(world.problem, world.settings, run.space, run.state)
        anew = evaluate(world.problem, world.settings, replace(run.space, memo={}), run.state)
        assert grown == anew
        assert grown.by_config == anew.by_config
        assert grown.by_projection == anew.by_projection
        assert grown.best_by_round == anew.best_by_round
        assert grown.best_measured == anew.best_measured
    assert run.state.gpu_seconds == pytest.approx(sum(trial.gpu_seconds for trial in run.state.trials.values()))
    assert run.state.running == [trial for trial in run.state.trials.values() if trial.running]
    assert run.state.failed == [trial for trial in run.state.trials.values() if trial.failure]


@settings(max_examples=15)
@given(worlds(), st.integers(0, 10_000))
def test_a_changed_decision_is_found_with_its_line(world: World, where: int) -> None:
    run = Run.of(world, small_space()).to_end()
    lines = [line for line, record in enumerate(run.records) if isinstance(record, Round)]
    line = lines[where % len(lines)]
    record = run.records[line]
    assert isinstance(record, Round)
    changed = record.decisions[-1]
    field = {"enter-phase": "phase", "ask-advisor": "proposals", "finish": "message"}.get(changed.type)
    update = {field: {"phase": "validate", "proposals": 31, "message": "tampered"}[field]} if field else None
    if changed.type == "enter-phase" and changed.phase == "validate":
        update = {"reason": "tampered"}
    if update is None:
        update = {"trial": "t9999"} if changed.type in ("start-trial", "stop-trial") else {"message": "tampered"}
    tampered = record.model_copy(update={"decisions": (*record.decisions[:-1], changed.model_copy(update=update))})
    difference = replay([*run.records[:line], tampered, *run.records[line + 1 :]], small_space())
    assert difference is not None
    assert difference.line == line + 1
    assert difference.field == f"decisions[{len(record.decisions) - 1}].{next(iter(update))}"


def _is_bounded(run: Run) -> None:
    chosen = run.world.settings
    assert run.finish is not None
    assert run.state.explore_round <= chosen.budget.max_trials + 2 * chosen.explore.patience


def _never_repeats(run: Run) -> None:
    keys = [trial.start.profile_key for trial in run.state.profiles]
    assert len(keys) == len(set(keys))
    starts = [
        (decision.trial, decision.attempt)
        for record in run.records
        if isinstance(record, Round)
        for decision in record.decisions
        if isinstance(decision, StartTrial)
    ]
    assert len(starts) == len(set(starts))
    measured = [(trial.config, trial.start.repeat) for trial in run.state.measurements]
    assert len(measured) == len(set(measured))


def _keeps_its_budget(run: Run) -> None:
    budget, spent = run.world.settings.budget, run.state.spent
    assert len(run.state.profiles) <= budget.max_trials
    assert budget.max_gpu_hours is None or spent.gpu_seconds <= budget.max_gpu_hours * 3600 + 1e-6
    assert spent.llm_calls <= budget.max_llm_calls
    assert spent.llm_tokens <= budget.max_llm_tokens
    assert budget.max_llm_cost_usd is None or spent.llm_cost_usd <= budget.max_llm_cost_usd + 1e-9
    assert all(len(trial.attempts) <= run.world.settings.max_attempts for trial in run.state.trials.values())
