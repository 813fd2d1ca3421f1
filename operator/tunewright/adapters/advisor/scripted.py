"""An advisor that answers from a list. For tests, demonstrations and reruns without an LLM."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from tunewright.planner.records import Advice, AdviceUsage, ProposedConfig
from tunewright.ports import AdviceRequest

ScriptedRound = Sequence[Mapping[str, Any]] | str
"""The changes of each proposal of a round, or the condition reason of its failure."""


def utc_now() -> str:
    """Return the present as an ISO 8601 timestamp in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


class ScriptedAdvisor:
    """Gives one item of `rounds` per call, whatever it is asked; afterwards it fails as `Unreachable`."""

    def __init__(self, rounds: Sequence[ScriptedRound], now: Callable[[], str] = utc_now) -> None:
        self._rounds = list(rounds)
        self._now = now
        self.asked: list[AdviceRequest] = []

    async def ask(self, request: AdviceRequest) -> Advice:
        """Return the next scripted round."""
        self.asked.append(request)
        entry = self._rounds.pop(0) if self._rounds else "Unreachable"
        if isinstance(entry, str):
            return self._failed(request, entry)
        proposals = tuple(ProposedConfig(changes=dict(changes), reason="scripted") for changes in entry)
        return Advice(
            round=request.round,
            outcome="answered",
            proposals=proposals[: request.proposals],
            model="scripted",
            at=self._now(),
        )

    def _failed(self, request: AdviceRequest, reason: str) -> Advice:
        message = f"the script of this advisor says {reason} for round {request.round}"
        usage = AdviceUsage(calls=0)
        return Advice(
            round=request.round,
            outcome="failed",
            condition_reason=reason,
            message=message,
            model="scripted",
            usage=usage,
            at=self._now(),
        )
