"""What a ledger says, gathered once for everything that the page shows. Called by `page` and the command line; pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import TrainingConfig
from tunewright.planner.candidates import Candidate, Evaluation
from tunewright.planner.chain import chained
from tunewright.planner.evaluation import evaluate
from tunewright.planner.records import Header, Record
from tunewright.planner.replay import header_of, space_of
from tunewright.planner.settings import PlannerSettings
from tunewright.planner.state import RunState, fold
from tunewright.planner.summary import Summary, summarise
from tunewright.search.space import Space


@dataclass(frozen=True)
class Story:
    """A run, rebuilt from its records. Figures are those of `summary`; the rest is where they come from."""

    records: Sequence[Record]
    header: Header
    settings: PlannerSettings
    state: RunState
    space: Space
    evaluation: Evaluation
    summary: Summary

    @property
    def problem(self) -> TuningProblem:
        """What was tuned."""
        return self.header.problem

    @property
    def best(self) -> Candidate | None:
        """What the run recommends."""
        return self.evaluation.winner

    @property
    def compared(self) -> list[tuple[str, TrainingConfig]]:
        """The configurations that are set side by side, by name: the best and the baseline, or the baseline alone."""
        baseline = ("baseline", self.settings.baseline)
        if self.best is None or self.best.config == self.settings.baseline:
            return [baseline]
        return [("best", self.best.config), baseline]

    @property
    def memory_limit_bytes(self) -> float:
        """What an allocation may reach: usable memory less the safety margin."""
        margin = 1 - self.problem.memory_safety_margin_percent / 100
        return self.problem.cluster.accelerator.hbm_capacity_bytes * margin

    @cached_property
    def head(self) -> str:
        """Digest of the ledger's last line."""
        return chained(self.records)[1]


def story_of(records: Sequence[Record], space: Space | None = None) -> Story:
    """Rebuild a run, with its search space where the caller has it.

    Raises `LedgerError` when the records do not begin with a header.
    """
    header, state = header_of(records), fold(records)
    settings, space = state.settings or header.settings, space or space_of(header)
    return Story(
        records=records,
        header=header,
        settings=settings,
        state=state,
        space=space,
        evaluation=evaluate(header.problem, settings, space, state),
        summary=summarise(header.problem, settings, space, state),
    )
