"""How long an audit takes: aims are 30 s for checking 5,000 trials and 60 s for the decisions of 100.

`pytest -s` prints the figures; the limits are five times the aims, since other tests may run beside.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.builders import mixtral_problem, settings_of
from tests.support.planning import Run, World, a_profile, hidden_effect, identity_of
from tests.support.records import AT, a_header
from tests.unit.cli.test_commands import answer
from tunewright.domain.training_config import TrainingConfig
from tunewright.planner import explore
from tunewright.planner.chain import chained
from tunewright.planner.decisions import Origin, StartTrial
from tunewright.planner.records import ProjectedFigure, Record, Round, TrialFinished, TrialStarted
from tunewright.planner.replay import replay
from tunewright.planner.settings import Budget, ExploreSettings
from tunewright.search.space import build_space
from tunewright.trial_protocol.report import TrialReport

pytestmark = pytest.mark.slow

TRIALS = 5000
CHECK_SECONDS, REPLAY_SECONDS = 5 * 30, 5 * 60


def records_of_many_trials() -> Iterator[Record]:
    problem = mixtral_problem()
    settings = settings_of(problem)
    space = build_space(problem, settings)
    yield a_header(problem=problem, settings=settings)
    origin = Origin(phase="explore", proposed_by="surrogate", round=1, reason="expected improvement 1.2 %")
    profile = a_profile(problem, space.config(0))
    for number in range(1, TRIALS + 1):
        config = space.config(number % len(space))
        start = StartTrial(
            trial=f"t{number:04d}",
            kind="profile",
            config=config,
            profile_key=f"{number:016x}",
            origin=origin,
            reserved_gpu_seconds=960.0,
        )
        identity = identity_of(start)
        figure = ProjectedFigure(
            trial=start.trial, config_digest=identity.config_digest, projected=4000.0, low=3900.0, high=4100.0
        )
        yield Round(elapsed_seconds=60.0 * number, decisions=(start,), projections=(figure,), at=AT)
        yield TrialStarted(trial=start.trial, attempt=1, request_digest="0" * 64, at=AT)
        report = TrialReport(identity=identity, profile=profile)
        yield TrialFinished(trial=start.trial, attempt=1, report=report, gpu_seconds=720.0, at=AT)


def test_a_ledger_of_5000_trials_is_checked_in_half_a_minute(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text(chained(records_of_many_trials())[0])
    began = time.monotonic()
    said = answer("replay", "--check", str(path))
    took = time.monotonic() - began
    print(f"checked {TRIALS} trials, {path.stat().st_size / 2**20:.1f} MiB, in {took:.1f} s")
    assert said.startswith(f"whole: {3 * TRIALS + 1} records, {TRIALS} rounds, {TRIALS} profiles, ")
    assert took < CHECK_SECONDS


def test_the_decisions_of_100_trials_are_derived_in_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explore, "LEAST_EXPECTED_IMPROVEMENT", -1.0)  # or it would be done before 100 trials
    problem = mixtral_problem()
    baseline = TrainingConfig(pipeline_parallel_size=4, expert_parallel_size=8, cross_entropy_fusion=True)
    patient = ExploreSettings(proposals_per_round=4, patience=100)
    chosen = settings_of(problem, baseline=baseline, budget=Budget(max_trials=100), explore=patient)
    effect = hidden_effect(1, 0.3, "tensor_parallel_size", "expert_parallel_size", "micro_batch_size", "moe_dispatcher")
    run = Run.of(World(problem, chosen, profile_factor=effect, measure_factor=effect)).to_end()
    began = time.monotonic()
    assert replay(run.records) is None
    took = time.monotonic() - began
    print(f"derived {run.state.decided_rounds} rounds of {len(run.state.trials)} trials in {took:.1f} s")
    assert len(run.state.profiles) == 100
    assert took < REPLAY_SECONDS
