"""One published measurement as the model sees it, and a row that it cannot use. Made by `published` and `vtrain`."""

from dataclasses import dataclass

from tunewright.domain.problem import TuningProblem
from tunewright.domain.training_config import TrainingConfig
from tunewright.memory.software import DEFAULT as PLAIN_MEMORY
from tunewright.memory.software import Software as MemorySoftware
from tunewright.performance.software import Software

MEMORY_KINDS = ("allocated", "reserved", "device", "unstated-paper")
"""What a memory figure may mean; a paper that does not say is compared with what is allocated."""


@dataclass(frozen=True)
class MeasuredRow:
    """A measurement with everything that the model needs to answer it."""

    identity: str
    device: str
    """As the table names it."""
    model: str
    precision: str
    schedule: str
    source: str
    """What rows of one origin share: they are left out together when a fit is judged."""
    group: tuple[object, ...]
    """Rows of a group differ only in what a search may choose."""
    problem: TuningProblem
    config: TrainingConfig
    software: Software
    step_seconds: float | None
    """None where only memory was measured."""
    memory_bytes: float | None
    memory_kind: str
    notes: tuple[str, ...] = ()
    """What was derived or assumed."""
    memory_software: MemorySoftware = PLAIN_MEMORY

    @property
    def family(self) -> str:
        """`moe` or `dense`."""
        return "moe" if self.problem.model.is_moe else "dense"

    @property
    def scale(self) -> str:
        """One node, or how many in classes of four."""
        nodes = self.problem.cluster.nodes
        return "1 node" if nodes == 1 else "2-8 nodes" if nodes <= 8 else "9-64 nodes" if nodes <= 64 else "65+ nodes"


@dataclass(frozen=True)
class SkippedRow:
    """A row that cannot be used, and why."""

    identity: str
    reason: str


class Unusable(Exception):
    """Raised inside a reader for a row that it cannot use; never leaves it."""
