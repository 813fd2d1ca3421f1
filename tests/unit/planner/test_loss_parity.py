"""The fastest measurement must train like the measured baseline, or the result says so."""

from dataclasses import dataclass

from tests.support.builders import a_problem, settings_of, small_space
from tests.support.planning import Run, World
from tunewright.planner.decisions import StartTrial
from tunewright.planner.figures import BestMeasured
from tunewright.planner.records import Round, TrialFinished
from tunewright.planner.settings import ValidationSettings
from tunewright.planner.summary import Summary, summarise


@dataclass
class Learning(World):
    """A world where everything but the baseline ends with another last loss, and is faster."""

    last_loss: float = 9.0

    def ends(self, start: StartTrial) -> TrialFinished:
        """Return the record of an attempt that ended."""
        found = super().ends(start)
        measured = found.report.measured if found.report else None
        if found.report is None or measured is None or start.config == self.settings.baseline:
            return found
        learned = measured.model_copy(update={"last_loss": self.last_loss})
        return found.model_copy(update={"report": found.report.model_copy(update={"measured": learned})})


def summary_after(last_loss: float, **validation: bool) -> tuple[Summary, BestMeasured]:
    problem = a_problem()
    settings = settings_of(problem, validation=ValidationSettings(nodes=problem.cluster.nodes, top_k=1, **validation))
    slow_baseline = {settings.baseline: 2.0}
    world = Learning(
        problem, settings, measure_factor=lambda config: slow_baseline.get(config, 1.0), last_loss=last_loss
    )
    run = Run.of(world, small_space()).to_end()
    summary = summarise(problem, settings, run.space, run.state)
    assert summary.best_measured is not None
    assert summary.best_measured.configuration != settings.baseline
    return summary, summary.best_measured


def test_a_winner_that_trains_like_the_baseline_carries_no_warning() -> None:
    summary, best = summary_after(last_loss=9.1)
    assert best.loss_parity is not None
    assert best.loss_parity.agrees
    assert "LossDiffers" not in best.flags
    assert "loss" not in summary.answer


def test_a_winner_that_trains_otherwise_is_flagged_and_the_answer_says_so() -> None:
    summary, best = summary_after(last_loss=12.0)
    assert best.loss_parity is not None
    assert not best.loss_parity.agrees
    assert "LossDiffers" in best.flags
    assert "its loss differs from the baseline's by" in summary.answer
    assert "more than 2%" in summary.answer


def test_without_a_measured_baseline_nobody_knows() -> None:
    _, best = summary_after(last_loss=12.0, include_baseline=False)
    assert best.loss_parity is None
    assert "LossNotCompared" in best.flags


def test_the_baseline_is_not_compared_with_itself() -> None:
    problem = a_problem()
    settings = settings_of(problem)
    others = {settings.baseline: 0.1}
    world = World(problem, settings, measure_factor=lambda config: others.get(config, 1.0))
    run = Run.of(world, small_space()).to_end()
    best = summarise(problem, settings, run.space, run.state).best_measured
    assert best is not None
    assert best.configuration == settings.baseline
    assert best.loss_parity is None
    assert not {"LossDiffers", "LossNotCompared"} & set(best.flags)


def test_parity_does_not_touch_the_decisions() -> None:
    problem = a_problem()
    settings = settings_of(problem)
    runs = [Run.of(Learning(problem, settings, last_loss=last), small_space()).to_end() for last in (9.0, 12.0)]
    decisions = [[record for record in run.records if isinstance(record, Round)] for run in runs]
    assert decisions[0] == decisions[1]
