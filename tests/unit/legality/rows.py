"""What a row of the rule tables is, and short words for its fields. The tables are `rows_of_*.py`, one a topic."""

from dataclasses import dataclass

from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import TrainingConfig

Change = dict[str, object]
NO_OVERLAP: Change = {"overlap_grad_reduce": False, "overlap_param_gather": False}
FSDP2: Change = {"optimizer": "fsdp2", **NO_OVERLAP}
T, P, V, C = (
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "virtual_pipeline_parallel_size",
    "context_parallel_size",
)
E, ET, B = "expert_parallel_size", "expert_tensor_parallel_size", "micro_batch_size"
SCHEDULE, RECOMPUTE, MODULES = "pipeline_schedule", "recompute_granularity", "recompute_modules"
DEEPEP: Change = {"moe_dispatcher": "deepep"}
ALL_TO_ALL: Change = {"moe_dispatcher": "all-to-all"}
MIXTRAL = "mixtral-8x7b"


@dataclass(frozen=True)
class Row:
    """The smallest configuration that breaks exactly `rule`, and its legal neighbour. `shared` is in both."""

    rule: str
    problem: TuningProblem
    broken: Change
    legal: Change
    legal_problem: TuningProblem | None = None
    shared: Change | None = None
    note: str = ""

    def __str__(self) -> str:
        return f"{self.rule}{'-' if self.note else ''}{self.note}"

    def config(self, change: Change) -> TrainingConfig:
        """Return the configuration with `change`, on what the backend always has."""
        own = FSDP2 if self.problem.backend == "torchtitan" else {}
        return TrainingConfig.parse({**own, **(self.shared or {}), **change})
