"""An advisor that is asked no more once the runs of its namespace have spent what they may. Made by `wiring`.

What was spent is the sum over the statuses of the TuningRuns that are there: a call that is under way in another run is
not in it yet, and a run that is deleted is not in it any more.
"""

from collections.abc import Iterable

from tunewright.adapters.kube.client import TUNING_RUNS, Document, KubeClient
from tunewright.errors import ClusterError
from tunewright.planner.records import Advice, AdviceUsage
from tunewright.ports import AdviceRequest, Advisor, Clock


class NamespaceAllowance:
    """Implements `ports.Advisor` around another one. `limit_usd` is for the whole namespace."""

    def __init__(self, advisor: Advisor, client: KubeClient, namespace: str, limit_usd: float, clock: Clock) -> None:
        self._advisor = advisor
        self._client = client
        self._namespace = namespace
        self._limit_usd = limit_usd
        self._clock = clock

    async def ask(self, request: AdviceRequest) -> Advice:
        """Ask while there is something left; otherwise return a failed advice that spent nothing."""
        try:
            spent = spent_usd(await self._client.list(TUNING_RUNS, self._namespace))
        except ClusterError as error:
            return self._failed(request, "Unreachable", f"what the runs of {self._namespace} have spent: {error}")
        if spent >= self._limit_usd:
            said = f"the runs of {self._namespace} have spent {spent:g} of {self._limit_usd:g} USD"
            return self._failed(request, "OverBudget", f"{said}: the surrogate continues alone")
        return await self._advisor.ask(request)

    def _failed(self, request: AdviceRequest, reason: str, message: str) -> Advice:
        return Advice(
            round=request.round,
            outcome="failed",
            condition_reason=reason,
            message=message[:2000],
            usage=AdviceUsage(calls=0),
            at=self._clock.now(),
        )


def spent_usd(runs: Iterable[Document]) -> float:
    """Return what the LLMs of these TuningRuns have cost, by their statuses."""
    return sum(float(((run.get("status") or {}).get("spent") or {}).get("llmCostUSD", 0)) for run in runs)
