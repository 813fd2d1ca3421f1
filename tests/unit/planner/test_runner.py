"""Whoever computes the trials is asked whether it can run a configuration, before that is measured."""

from dataclasses import dataclass

import numpy as np
import pytest

from tests.support.builders import a_problem, settings_of
from tests.support.planning import Run, World
from tunewright.domain.config_batch import ConfigBatch
from tunewright.domain.training_config import TrainingConfig
from tunewright.legality import judge_runner
from tunewright.planner.decisions import StartTrial
from tunewright.planner.records import TrialFinished
from tunewright.planner.settings import ValidationSettings
from tunewright.planner.summary import summarise
from tunewright.trial_protocol.report import Runner

RUNNERS: tuple[Runner | None, ...] = (None, "primus", "builtin")


@dataclass
class Computed(World):
    """A world whose reports say who computed them."""

    runner: Runner | None = None

    def ends(self, start: StartTrial) -> TrialFinished:
        """Return the record of an attempt that ended."""
        found = super().ends(start)
        assert found.report is not None
        return found.model_copy(update={"report": found.report.model_copy(update={"runner": self.runner})})


def finished_run(runner: Runner | None) -> Run:
    """A run under Primus's rules, in which mxfp8 is projected fastest."""
    problem = a_problem()
    settings = settings_of(
        problem,
        search_space={"precision": ("bf16", "mxfp8")},
        validation=ValidationSettings(nodes=problem.cluster.nodes, top_k=2),
    )
    return Run.of(Computed(problem, settings, runner=runner)).to_end()


@pytest.mark.parametrize("runner", RUNNERS)
def test_only_what_the_runner_has_is_measured(runner: Runner | None) -> None:
    run = finished_run(runner)
    projected = {trial.config.precision for trial in run.state.profiles}
    measured = {trial.config.precision for trial in run.state.measurements}
    assert projected == {"bf16", "mxfp8"}
    assert measured == ({"bf16"} if runner == "builtin" else {"bf16", "mxfp8"})
    assert run.finish is not None
    assert run.finish.reason == "Converged"


@pytest.mark.parametrize("runner", RUNNERS)
def test_a_projection_that_the_runner_cannot_confirm_is_flagged(runner: Runner | None) -> None:
    run = finished_run(runner)
    best = summarise(run.world.problem, run.world.settings, run.space, run.state).best_projected
    assert best is not None
    assert best.configuration.precision == "mxfp8"
    assert ("RunnerLacksIt" in best.flags) is (runner == "builtin")


@pytest.mark.parametrize(
    ("changes", "lacks"),
    [
        ({"precision": "mxfp8"}, "precision mxfp8: backend builtin computes in bf16 or fp32 or fp8"),
        ({"moe_dispatcher": "deepep"}, "backend builtin does not have it, use all-to-all"),
        ({"pipeline_parallel_size": 8, "micro_batch_size": 16}, "must be at least pipelineParallelSize 8"),
        ({"optimizer": "fsdp2", "pipeline_parallel_size": 2}, "fsdp2"),
        ({"pipeline_parallel_size": 2, "pipeline_schedule": "zero-bubble-h2"}, ""),
        ({}, ""),
    ],
)
def test_the_builtin_runner_says_what_it_lacks_under_any_launch_rules(changes: dict[str, object], lacks: str) -> None:
    batch = ConfigBatch.of([TrainingConfig.parse(changes)])
    verdicts = judge_runner(a_problem(), batch, "builtin")
    assert bool(verdicts.legal[0]) is not bool(lacks)
    assert lacks in "; ".join(verdicts.violations(0).values())
    assert np.all(judge_runner(a_problem(), batch, "primus").legal)
