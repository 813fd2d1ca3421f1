"""The plan of the sweep, and the axis table that comes of it."""

from itertools import groupby

from tests.support.planning import Run, a_run
from tunewright.domain.training_config import TrainingConfig
from tunewright.domain.value import camel_case
from tunewright.planner.summary import summarise
from tunewright.planner.sweep import Step, sweep_plan


def plan_of(run: Run) -> tuple[Step, ...]:
    return sweep_plan(run.space, run.world.settings)


def estimate_of(run: Run, step: Step) -> float:
    row = run.space.row_of(step.config)
    return float(run.space.tokens_per_second_per_gpu[row]) if row is not None and run.space.fits[row] else 0.0


def test_axes_and_their_values_come_in_the_order_of_what_they_are_expected_to_gain() -> None:
    run = a_run()
    by_axis = [[estimate_of(run, step) for step in steps] for _, steps in groupby(plan_of(run), lambda step: step.axis)]
    assert len(by_axis) > 3
    assert all(values == sorted(values, reverse=True) for values in by_axis)
    best = [values[0] for values in by_axis]
    assert best == sorted(best, reverse=True)


def test_a_value_that_is_illegal_with_the_baseline_takes_the_smallest_repair_and_says_so() -> None:
    run = a_run(baseline=TrainingConfig(), sweep_axes=("pipeline_schedule",)).to_end()
    plan = {step.value: step for step in plan_of(run)}
    assert plan["zero-bubble-h1"].repaired == ("pipeline_parallel_size", "overlap_grad_reduce", "overlap_param_gather")
    swept = [item for item in run.state.proposals if item.origin.proposed_by == "sweep" and item.config is not None]
    assert len(swept) == len(plan)
    for proposal in swept:
        assert proposal.config is not None
        step = plan[proposal.config.pipeline_schedule]
        differing = {name for name, value in proposal.config if value != getattr(run.world.settings.baseline, name)}
        assert differing == {"pipeline_schedule", *step.repaired}
        told = ", ".join(map(camel_case, step.repaired))
        assert proposal.origin.reason.endswith(f"the rest as in the baseline but for {told}, which have to follow")


def test_the_axis_table_has_effect_deviation_and_the_trial_behind_it() -> None:
    run = a_run(profile_factor=lambda config: 0.8 if config.micro_batch_size == 4 else 1.0).to_end()
    table = summarise(run.world.problem, run.world.settings, run.space, run.state).axes
    assert {row.axis for row in table} == {camel_case(step.axis) for step in plan_of(run)}
    effects = {effect.value: effect for row in table if row.axis == "microBatchSize" for effect in row.values}
    one, four = effects["1"], effects["4"]
    assert (one.kind, four.kind) == ("reference", "projected")
    baseline = run.space.row_of(run.world.settings.baseline)
    step = next(item for item in plan_of(run) if (item.axis, item.value) == ("micro_batch_size", 4))
    assert baseline is not None
    modelled = 100 * (estimate_of(run, step) / float(run.space.tokens_per_second_per_gpu[baseline]) - 1)
    assert four.effect_percent is not None and four.effect_percent > 1.1 * modelled
    assert four.plus_minus_percent is not None and four.plus_minus_percent > 0
    assert run.state.trials[four.trial].config.micro_batch_size == 4
