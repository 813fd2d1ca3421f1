"""What a rule is: a function from a context to a finding. Used by every rule module, by the chains and the verdicts."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tunewright.domain.config_batch import CATEGORIES, BoolArray, ConfigBatch, IntArray
from tunewright.domain.degrees import Degrees
from tunewright.domain.model_architecture import ModelArchitecture
from tunewright.domain.pipeline_layout import StageTable
from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import V_SHAPED_SCHEDULES

Message = Callable[[int], str]


@dataclass(frozen=True)
class Finding:
    """Which rows break a rule, and how to say so: `message(row)` names the field, its value and the remedy."""

    violated: BoolArray
    message: Message


@dataclass(frozen=True)
class Rule:
    """A named launch rule."""

    name: str
    check: Callable[["RuleContext"], Finding]

    @property
    def claim(self) -> str:
        """What holds for every configuration that passes, in one sentence."""
        return (inspect.getdoc(self.check) or self.name).partition("\n")[0]


def rule(check: Callable[["RuleContext"], Finding]) -> Rule:
    """Make a rule that is called like its function, with hyphens."""
    return Rule(check.__name__.replace("_", "-"), check)


@dataclass(frozen=True)
class RuleContext:
    """What a rule may read: the problem, the batch, and what follows from them (computed once for all rules)."""

    problem: TuningProblem
    batch: ConfigBatch

    @property
    def model(self) -> ModelArchitecture:
        """The model to be trained."""
        return self.problem.model

    @cached_property
    def degrees(self) -> Degrees:
        """Derived degrees; of a meaning only where `fills_world`."""
        return Degrees.of(self.problem, self.batch)

    @cached_property
    def fills_world(self) -> BoolArray:
        """Where T·C·P divides the world size, so that the data parallel size is a whole number."""
        batch = self.batch
        ranks = batch.tensor_parallel_size * batch.context_parallel_size * batch.pipeline_parallel_size
        filled: BoolArray = self.problem.world_size % ranks == 0
        return filled

    @cached_property
    def has_whole_steps(self) -> BoolArray:
        """Where micro batches fill the global batch exactly, so that their number is meaningful."""
        share = self.batch.micro_batch_size * self.degrees.data_parallel_size
        whole: BoolArray = self.fills_world & (self.problem.global_batch_size % share == 0)
        return whole

    @cached_property
    def largest_chunk(self) -> IntArray:
        """Layers of the fullest model chunk of every row; 0 where the layout does not fit the model.

        Only one row of each distinct pipeline shape is laid out, and none that has more chunks than layers.
        """
        batch, layers = self.batch, self.model.num_layers
        v_shaped = batch.is_("pipeline_schedule", *V_SHAPED_SCHEDULES)
        ranks = np.minimum(batch.pipeline_parallel_size, layers + 1)
        chunks = np.minimum(batch.virtual_pipeline_parallel_size, layers + 1)
        shape = ((ranks * (layers + 2) + chunks) * 2 + v_shaped) * len(batch.layouts) + batch.columns["pipeline_layout"]
        _, first, index = np.unique(shape, return_index=True, return_inverse=True)
        largest = np.zeros(len(first), dtype=np.int64)
        plausible = (ranks * chunks)[first] <= layers
        if plausible.any():
            table = StageTable.of(self.model, batch.take(first[plausible]))
            largest[plausible] = (table.dense + table.moe).max(axis=(1, 2))[table.index]
        return largest[index]

    def name_of(self, field: str, row: int) -> str:
        """Return the name of a categorical value, such as the schedule of a row."""
        return CATEGORIES[field][int(self.batch.columns[field][row])]

    def everywhere(self, verdict: bool) -> BoolArray:
        """Return one verdict for all rows: for rules that depend on the problem alone."""
        return np.full(len(self.batch), verdict, dtype=bool)


def divisors_text(number: int, at_most: int = 4096) -> str:
    """List the divisors of a number up to a limit, for a remedy.

    >>> divisors_text(48, 8)
    '1, 2, 3, 4, 6, 8'
    """
    return ", ".join(str(part) for part in range(1, min(number, at_most) + 1) if number % part == 0)
