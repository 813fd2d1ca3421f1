"""Which rank of which job a process is. Made by the supervisor, which imports no torch."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """Which rank of which job a process is."""

    local_rank: int
    processes_per_node: int
    node_rank: int
    nodes: int
    meeting_file: str
    timeout_seconds: float
    diagnostics_folder: str = ""

    @property
    def rank(self) -> int:
        """Rank in the whole job."""
        return self.node_rank * self.processes_per_node + self.local_rank

    @property
    def progress_file(self) -> str:
        """Where this rank says what it is doing: beside the file by which the ranks of a node meet."""
        return f"{self.meeting_file}-{self.local_rank}"

    @property
    def world(self) -> int:
        """Ranks of the whole job."""
        return self.nodes * self.processes_per_node
