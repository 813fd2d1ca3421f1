"""What profiles say about their neighbours: each once, whatever else the ledger holds."""

from dataclasses import replace

from tests.support.planning import Run, a_run
from tests.support.records import AT
from tunewright.domain.training_config import TrainingConfig
from tunewright.planner.decide import decide
from tunewright.planner.records import Round, TrialFinished
from tunewright.planner.replay import replay
from tunewright.planner.state import fold

BASELINE = TrainingConfig(pipeline_parallel_size=4)
"""Others of its profile are faster: with another schedule, say."""


def told_by_the_baseline(run: Run) -> list[TrainingConfig | None]:
    """Return what the first profile said about its neighbours, once it was known."""
    mine = [judge for judge in run.state.judged if judge.reused_trial == "t0001"]
    return [judge.config for judge in mine if judge.origin.proposed_by == "surrogate"]


def test_a_failed_try_at_a_profile_that_was_taken_changes_nothing_that_the_profile_says() -> None:
    undisturbed, run = a_run(baseline=BASELINE).to_end(), a_run(baseline=BASELINE)
    while not run.state.finished_attempts:
        run.step()
    again = run.state.trials["t0001"].start.model_copy(update={"trial": "t0002"})
    run.add(Round(elapsed_seconds=run.elapsed_seconds, decisions=(again,), at=AT))
    run.add(TrialFinished(trial="t0002", attempt=1, failure="NaNLoss", at=AT))
    run.to_end()
    assert told_by_the_baseline(undisturbed)
    assert told_by_the_baseline(run) == told_by_the_baseline(undisturbed)


def test_who_reads_a_ledger_asks_no_profile_again_that_has_told_all() -> None:
    run = a_run(baseline=BASELINE)
    while not (run.state.tally.followed_up and run.state.phase == "explore"):
        run.step()
    state = fold(run.records)
    told = state.tally.profiled[: state.tally.followed_up]
    memo: dict[object, object] = {}
    decide(replace(run.snapshot(), state=state, space=replace(run.space, memo=memo)))
    assert told
    assert not [trial.name for trial in told if trial.report and ("group", trial.report.identity) in memo]
    assert replay(run.to_end().records, run.space) is None
