"""State, changes, briefing and replay on their own."""

import json

import pytest

from tests.support.builders import a_problem, an_llm, settings_of, small_space
from tests.support.planning import Run, World, a_measurement, identity_of
from tests.support.records import AT, a_header
from tunewright.domain.training_config import TrainingConfig
from tunewright.errors import InvalidInput, LedgerError
from tunewright.planner.briefing import briefing
from tunewright.planner.budget import llm_reservation
from tunewright.planner.changes import read_changes, with_changes
from tunewright.planner.decide import decide
from tunewright.planner.decisions import Origin, StartTrial
from tunewright.planner.records import Round, TrialFinished
from tunewright.planner.replay import first_difference, replay
from tunewright.planner.snapshot import Snapshot
from tunewright.planner.state import fold
from tunewright.trial_protocol.report import TrialReport


def a_finished_run(**changes: object) -> Run:
    problem = a_problem()
    return Run.of(World(problem, settings_of(problem, **changes)), small_space()).to_end()


def a_start(trial: str = "t0001", attempt: int = 1) -> StartTrial:
    return StartTrial(
        trial=trial,
        attempt=attempt,
        kind="profile",
        config=TrainingConfig(),
        profile_key="k",
        origin=Origin(phase="seed", proposed_by="baseline"),
        reserved_gpu_seconds=100,
    )


def a_round(*decisions: StartTrial) -> Round:
    return Round(elapsed_seconds=0, decisions=decisions, at=AT)


class TestState:
    def test_folding_at_once_or_record_by_record_is_the_same(self) -> None:
        run = a_finished_run()
        assert fold(run.records) == run.state

    def test_reservations_count_until_the_attempt_ends(self) -> None:
        state = fold([a_header(), a_round(a_start())])
        assert state.spent.gpu_seconds == 100
        fold([TrialFinished(trial="t0001", attempt=1, failure="NodeLost", gpu_seconds=7, at=AT)], state)
        assert state.spent.gpu_seconds == 7
        fold([a_round(a_start(attempt=2))], state)
        assert state.spent.gpu_seconds == 107
        assert state.running == [state.trials["t0001"]]

    def test_a_trial_without_a_report_has_no_result(self) -> None:
        state = fold([a_header(), a_round(a_start()), TrialFinished(trial="t0001", attempt=1, at=AT)])
        assert state.trials["t0001"].failure == "ResultMissing"
        assert state.trials["t0001"].report is None

    def test_a_second_end_of_an_attempt_is_a_broken_ledger(self) -> None:
        first = TrialFinished(trial="t0001", attempt=1, failure="NodeLost", gpu_seconds=7, at=AT)
        with pytest.raises(LedgerError, match="t0001, attempt 1, which is not under way"):
            fold([a_header(), a_round(a_start()), first, first])

    def test_an_end_of_a_trial_that_never_began_is_a_broken_ledger(self) -> None:
        with pytest.raises(LedgerError, match="t9999"):
            fold([a_header(), TrialFinished(trial="t9999", attempt=1, failure="NodeLost", at=AT)])

    def test_an_attempt_before_the_first_is_a_broken_ledger(self) -> None:
        with pytest.raises(LedgerError, match="comes before its first"):
            fold([a_header(), a_round(a_start(attempt=2))])


class TestChanges:
    @pytest.mark.parametrize(
        ("changes", "expected"),
        [
            ({"tp": 2}, {"tensor_parallel_size": 2}),
            ({"tensorParallelSize": "4"}, {"tensor_parallel_size": 4}),
            ({"overlapGradReduce": False}, {"overlap_grad_reduce": False}),
            ({"ogr": "off"}, {"overlap_grad_reduce": False}),
            ({"modules": ["mlp", "core_attn"]}, {"recompute_modules": ("core_attn", "mlp")}),
            ({"modules": "mlp+core_attn"}, {"recompute_modules": ("core_attn", "mlp")}),
            ({"schedule": "v-half"}, {"pipeline_schedule": "v-half"}),
        ],
    )
    def test_names_and_values_are_read_in_every_form(self, changes: dict[str, object], expected: object) -> None:
        assert read_changes(changes) == expected

    @pytest.mark.parametrize("value", [True, None, [2], 2.5, "two", "-1"])
    def test_a_degree_is_a_whole_number(self, value: object) -> None:
        with pytest.raises(InvalidInput):
            read_changes({"tp": value})

    def test_modules_follow_the_granularity(self) -> None:
        problem, plain = a_problem(), TrainingConfig()
        selective = with_changes(problem, plain, {"recompute_granularity": "selective"})
        assert selective.recompute_modules == ("mlp",)
        assert with_changes(problem, selective, {"recompute_granularity": "full"}).recompute_modules == ()

    def test_an_impossible_configuration_is_refused(self) -> None:
        with pytest.raises(InvalidInput):
            with_changes(a_problem(), TrainingConfig(), {"tensor_parallel_size": 0})


class TestBriefing:
    def test_it_is_plain_json_with_what_an_advisor_needs(self) -> None:
        run = a_finished_run()
        context = json.loads(json.dumps(briefing(run.snapshot())))
        assert context["axes"]["tensorParallelSize"] == [1, 2, 4]
        assert context["axes"]["recomputeGranularity"] == ["none", "selective", "full"]
        assert context["incumbent"]["stepTimePercent"]["compute"] > 0
        assert sum(context["incumbent"]["stepTimePercent"].values()) == pytest.approx(100, abs=1)
        history = [item["projectedTokensPerSecondPerGPU"] for item in context["history"]]
        assert history == sorted(history, reverse=True)
        assert context["surrogateCandidates"][0]["sigmaPercent"] > 0
        assert any(item["verdict"] == "pruned" and "cannot win" in item["reason"] for item in context["rejections"])
        assert context["axisTable"]["microBatchSize"].startswith("1 ref")

    def test_before_anything_ran_it_still_holds_the_problem(self) -> None:
        problem = a_problem()
        settings = settings_of(problem, llm=an_llm())
        context = briefing(Snapshot(problem, settings, small_space(), fold([a_header(problem=problem)])))
        assert context["incumbent"]["known"] is False
        assert context["problem"]["hardware"]["accelerator"] == "mi355x"
        assert context["history"] == []

    def test_a_reservation_covers_each_prompt_and_the_answer_once(self) -> None:
        llm, context = an_llm(max_output_tokens=500), {"text": "x" * 3000}
        one, two = llm_reservation(llm, context, 1), llm_reservation(llm, context, 2)
        assert one.tokens > 500 + 1000
        assert two.tokens - one.tokens == one.tokens - 500
        assert one.cost_usd == pytest.approx(((one.tokens - 500) * 1.0 + 500 * 2.0) / 1e6)


class TestReplay:
    def test_a_ledger_replays_identically(self) -> None:
        run = a_finished_run(parallel_trials=2)
        assert replay(run.records) is None

    def test_a_ledger_without_header_is_refused(self) -> None:
        with pytest.raises(LedgerError, match="line 1"):
            replay(a_finished_run().records[1:])

    def test_a_changed_report_shows_at_the_decision_that_depends_on_it(self) -> None:
        run = a_finished_run()
        line = next(
            i for i, item in enumerate(run.records) if isinstance(item, TrialFinished) and item.trial == "t0002"
        )
        changed = run.records[line].model_copy(update={"report": None, "failure": "NodeLost"})
        difference = replay([*run.records[:line], changed, *run.records[line + 1 :]])
        assert difference is not None
        assert difference.line == line + 2
        assert str(difference).startswith(f"line {line + 2}: decisions[0]")

    def test_a_decision_too_many_is_found(self) -> None:
        run = a_finished_run()
        record = run.records[1]
        assert isinstance(record, Round)
        longer = record.model_copy(update={"decisions": (*record.decisions, a_start("t0009"))})
        difference = replay([run.records[0], longer])
        assert difference is not None
        assert (difference.line, difference.field, difference.derived) == (2, "decisions[2]", "absent")

    def test_true_and_one_are_different(self) -> None:
        assert first_difference("x", {"a": [1]}, {"a": [True]}) == ("x.a[0]", 1, True)
        assert first_difference("x", {"a": [1]}, {"a": [1]}) is None


def test_a_measured_report_for_a_profile_key_is_not_reused() -> None:
    """A measurement says nothing about layers: its configuration keeps the projection of its profile."""
    run = a_finished_run()
    measured = [trial for trial in run.state.measurements if trial.report]
    assert measured
    assert all(isinstance(trial.report, TrialReport) and trial.report.profile is None for trial in measured)
    assert a_measurement(a_problem(), TrainingConfig()).tokens_per_second_per_gpu > 0
    assert decide(run.snapshot()) == ()


class TestForeignReports:
    @pytest.mark.parametrize("changed", [{"run_uid": "another"}, {"config_digest": "0" * 16}, {"attempt": 2}])
    def test_a_report_of_another_trial_is_a_broken_ledger(self, changed: dict[str, object]) -> None:
        start = a_start()
        identity = identity_of(start).model_copy(update=changed)
        report = TrialReport(identity=identity, failure="CrashInTraining")
        ended = TrialFinished(trial=start.trial, attempt=1, report=report, at=AT)
        with pytest.raises(LedgerError, match="belongs to another trial"):
            fold([a_header(), a_round(start), ended])


def test_the_first_bad_change_does_not_depend_on_the_order_in_which_they_were_written() -> None:
    for changes in ({"pp": "x", "mbs": "y"}, {"mbs": "y", "pp": "x"}):
        with pytest.raises(InvalidInput, match="microBatchSize"):
            read_changes(changes)
