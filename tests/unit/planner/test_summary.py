import pytest

from tests.support.builders import a_cluster, a_problem, an_llm, settings_of, small_space
from tests.support.planning import Run, World
from tests.support.records import AT
from tunewright.domain.training_config import TrainingConfig
from tunewright.planner.records import Advice
from tunewright.planner.settings import Budget, Reference, ValidationSettings
from tunewright.planner.summary import Summary, summarise
from tunewright.search.space import build_space


def a_run(**changes: object) -> Run:
    problem = a_problem()
    worldly = {name: changes.pop(name) for name in ("measure_factor", "fails", "advises") if name in changes}
    return Run.of(World(problem, settings_of(problem, **changes), **worldly), small_space())  # type: ignore[arg-type]


def summary_of(run: Run) -> Summary:
    settings = run.state.settings or run.world.settings
    return summarise(run.world.problem, settings, run.space, run.state)


def test_a_run_that_has_not_begun_is_pending() -> None:
    summary = summary_of(a_run())
    assert summary.state == "Pending"
    assert summary.answer == "nothing is known yet"
    assert summary.counters.proposed == 0
    assert summary.winner is None


def test_the_state_follows_the_phases() -> None:
    run = a_run()
    seen: list[str] = []
    while run.step():
        state = summary_of(run).state
        if not seen or seen[-1] != state:
            seen.append(state)
    assert seen == ["Sweeping", "Exploring", "Validating", "Succeeded"]


def test_before_validation_the_answer_is_a_projection() -> None:
    run = a_run()
    while run.state.phase != "explore":
        run.step()
    answer = summary_of(run).answer
    assert answer.startswith("projected ")
    assert "over baseline" in answer
    assert answer.endswith("not measured yet")


def test_the_answer_gives_figure_interval_gain_and_bias() -> None:
    reference = Reference(tokens_per_second_per_gpu=200_000, precision="fp8", source="a report")
    run = a_run(measure_factor=lambda config: 1.25, reference=reference).to_end()
    summary = summary_of(run)
    assert summary.bias is not None
    assert summary.bias.percent == pytest.approx(25, abs=1)
    assert summary.bias.samples == 3
    assert summary.best_measured is not None
    assert summary.best_projected is not None
    assert summary.best_measured.flags == ("ReferencePrecisionDiffers",)
    assert summary.best_measured.improvement_percent.over_reference is not None
    for part in ("measured ", "n=2", "over baseline", "over reference (fp8)", "bias +25.", "(3 samples)"):
        assert part in summary.answer


def test_a_projection_of_a_biased_run_has_the_truth_in_its_interval() -> None:
    summary = summary_of(a_run(measure_factor=lambda config: 1.25).to_end())
    projected, measured = summary.best_projected, summary.best_measured
    assert projected is not None
    assert measured is not None
    assert projected.interval_low <= measured.tokens_per_second_per_gpu <= projected.interval_high
    assert projected.interval_low <= projected.tokens_per_second_per_gpu <= projected.interval_high


def test_counters_add_up_to_the_records() -> None:
    run = a_run(budget=Budget(max_trials=20)).to_end()
    counters = summary_of(run).counters
    judged = counters.filtered + counters.pruned + counters.reused + counters.rejected
    assert counters.proposed == counters.profiles + judged
    assert counters.profiles == len(run.state.profiles)
    assert counters.measured == 3
    assert counters.running == 0


def test_failures_are_counted_by_class_and_the_last_one_is_told() -> None:
    run = a_run(fails=lambda start: "DeviceOutOfMemory" if start.trial == "t0003" else None).to_end()
    counters = summary_of(run).counters
    assert counters.failed == 1
    assert [(item.failure, item.count) for item in counters.failed_by_class] == [("DeviceOutOfMemory", 1)]
    assert counters.last_failure is not None
    assert counters.last_failure.trial == "t0003"
    assert counters.last_failure.message == "scripted DeviceOutOfMemory"


def test_filtering_and_reuse_save_gpu_hours() -> None:
    problem = a_problem(cluster=a_cluster(hbm_capacity_bytes=6 * 2**30))
    settings = settings_of(problem, baseline=TrainingConfig(pipeline_parallel_size=2))
    run = Run.of(World(problem, settings)).to_end()
    spent = summary_of(run).spent
    trials = run.state.profiles
    mean = sum(trial.gpu_seconds for trial in trials) / len(trials) / 3600
    counters = summary_of(run).counters
    assert counters.filtered > 0
    assert counters.reused > 0
    assert spent.gpu_hours_saved >= mean * (counters.filtered + counters.pruned)


def test_candidates_keep_the_kinds_of_figures_apart() -> None:
    rows = summary_of(a_run().to_end()).candidates
    assert [row.measured is not None for row in rows[:3]] == [True] * 3
    assert all(row.measured is None and row.bias_percent is None for row in rows[3:])
    assert all(row.projected is not None and row.estimated > 0 for row in rows)
    measured = [row.measured for row in rows if row.measured]
    assert measured == sorted(measured, reverse=True)


def test_the_axis_table_reads_like_a_line() -> None:
    rows = {row.axis: row.effects for row in summary_of(a_run().to_end()).axes}
    assert rows["microBatchSize"].startswith("1 ref, ")
    assert "projected" in rows["microBatchSize"]
    assert "pruned" in rows["tensorParallelSize"]


def test_a_simulated_run_says_so_first() -> None:
    run = a_run()
    header = run.records[0].model_copy(update={"simulated": True})
    run.state.header = header  # type: ignore[assignment]
    summary = summary_of(run.to_end())
    assert summary.simulated
    assert summary.answer.startswith("simulated: ")


def test_fewer_nodes_are_flagged() -> None:
    run = a_run(validation=ValidationSettings(nodes=1, top_k=1)).to_end()
    best = summary_of(run).best_measured
    assert best is not None
    assert best.nodes == 1
    assert "FewerNodes" in best.flags
    bias = summary_of(run).bias
    assert bias is not None
    assert bias.percent == pytest.approx(0, abs=0.5)


def test_an_advisor_that_fails_is_named() -> None:
    def silent(ask: object) -> Advice:
        return Advice(round=1, outcome="failed", condition_reason="Unreachable", message="no route", at=AT)

    summary = summary_of(a_run(llm=an_llm(), advises=silent).to_end())
    assert summary.advisor is not None
    assert (summary.advisor.available, summary.advisor.reason) == (False, "Unreachable")
    assert summary_of(a_run()).advisor is None


def test_the_summary_is_plain_json_and_reads_back() -> None:
    summary = summary_of(a_run().to_end())
    assert Summary.parse(summary.to_json()) == summary


def test_the_forecast_is_near_what_the_run_takes() -> None:
    run = a_run(budget=Budget(max_trials=20))
    run.world.used_share = 1.0
    summary = summary_of(run.to_end())
    assert summary.forecast.trials == pytest.approx(len(run.state.profiles), abs=8)
    assert summary.forecast.trials <= 20
    assert summary.forecast.validations == len(run.state.measurements)
    assert summary.forecast.gpu_hours == pytest.approx(summary.spent.gpu_hours, rel=1.0)
    assert summary.forecast.llm_cost_usd == 0


def test_the_forecast_knows_prices_and_limits() -> None:
    problem = a_problem()
    priced = settings_of(problem, llm=an_llm(), budget=Budget(max_llm_cost_usd=1e-6, max_gpu_hours=0.5))
    space = build_space(problem, priced)
    summary = summarise(problem, priced, space, a_run().state)
    assert summary.forecast.llm_calls > 0
    assert summary.forecast.llm_cost_usd == 1e-6
    assert summary.forecast.gpu_hours == 0.5
    unpriced = an_llm(input_usd_per_million_tokens=None, output_usd_per_million_tokens=None)
    settings = priced.model_copy(update={"llm": unpriced})
    assert summarise(problem, settings, space, a_run().state).forecast.llm_cost_usd is None
