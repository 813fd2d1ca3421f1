"""What a run has used up. Counted by `state` from its trials and questions."""

from dataclasses import dataclass

from tunewright.planner.decisions import AskAdvisor
from tunewright.planner.records import Advice


@dataclass
class Spent:
    """What is used up, reservations of running trials and unanswered or lost questions included."""

    gpu_seconds: float = 0.0
    queued_seconds: float = 0.0
    llm_calls: int = 0
    llm_tokens: int = 0
    llm_cost_usd: float = 0.0

    def add_question(self, ask: AskAdvisor, advice: Advice | None) -> None:
        """Add what a question cost: its reservation, until an answer says what it was."""
        if advice is None or advice.outcome == "lost":
            self.llm_calls += ask.max_calls
            self.llm_tokens += ask.reserved_tokens
            self.llm_cost_usd += ask.reserved_cost_usd
            return
        usage = advice.usage
        self.llm_calls += usage.calls
        self.llm_tokens += usage.input_tokens + usage.output_tokens
        self.llm_cost_usd += usage.cost_usd
