"""An advisor that is asked no more once the runs of its namespace have spent what they may. Made by `wiring`.

What was spent is kept in a ConfigMap of the namespace, by the id of the run, since a run may be deleted; of a run that
is there its status counts where it says more. A call that is under way in another run is not in it yet.
"""

import logging
import math
from collections.abc import Iterable, Mapping

from tunewright.adapters.kube import labels
from tunewright.adapters.kube.client import CONFIG_MAPS, TUNING_RUNS, Document, KubeClient, NotFound
from tunewright.adapters.kube.names import RunReference
from tunewright.errors import ClusterError
from tunewright.planner.records import Advice, AdviceUsage
from tunewright.ports import AdviceRequest, Advisor, Clock

BOOK = "tunewright-llm-spent"
"""Name of the ConfigMap: USD by the uid of each run. It has no owner: it outlives the runs."""
_log = logging.getLogger(__name__)


class NamespaceAllowance:
    """Implements `ports.Advisor` around another one of `run`. `limit_usd` is for the whole namespace."""

    def __init__(self, advisor: Advisor, client: KubeClient, run: RunReference, limit_usd: float, clock: Clock) -> None:
        self._advisor = advisor
        self._client = client
        self._run = run
        self._limit_usd = limit_usd
        self._clock = clock

    async def ask(self, request: AdviceRequest) -> Advice:
        """Ask while there is something left; otherwise return a failed advice that spent nothing."""
        namespace = self._run.namespace
        try:
            spent = await self._spent()
        except ClusterError as error:
            return self._failed(request, "Unreachable", f"what the runs of {namespace} have spent: {error}")
        total = sum(spent.values())
        if total >= self._limit_usd:
            said = f"the runs of {namespace} have spent {total:g} of {self._limit_usd:g} USD"
            return self._failed(request, "OverBudget", f"{said}: the surrogate continues alone")
        advice = await self._advisor.ask(request)
        await self._write_down(spent.get(self._run.uid, 0.0) + advice.usage.cost_usd)
        return advice

    async def _spent(self) -> Mapping[str, float]:
        book = await self._client.find(CONFIG_MAPS, self._run.namespace, BOOK)
        runs = await self._client.list(TUNING_RUNS, self._run.namespace)
        return spent_usd((book or {}).get("data") or {}, runs)

    async def _write_down(self, usd: float) -> None:
        """Keep what this run has spent. Where that fails its status still says it, as long as the run is there."""
        data = {self._run.uid: f"{usd:.6f}"}
        try:
            await self._client.patch(CONFIG_MAPS, self._run.namespace, BOOK, {"data": data})
        except NotFound:
            await self._begin(data)
        except ClusterError as error:
            _log.warning("%s: %s USD for the LLM are not written down: %s", self._run.key, usd, error)

    async def _begin(self, data: Mapping[str, str]) -> None:
        metadata = {"name": BOOK, "namespace": self._run.namespace, "labels": {labels.MANAGED_BY: labels.MANAGER}}
        document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(data)}
        try:
            await self._client.create(CONFIG_MAPS, self._run.namespace, document)
        except ClusterError as error:
            _log.warning("%s: what its LLM costs is not written down: %s", self._run.key, error)

    def _failed(self, request: AdviceRequest, reason: str, message: str) -> Advice:
        return Advice(
            round=request.round,
            outcome="failed",
            condition_reason=reason,
            message=message[:2000],
            usage=AdviceUsage(calls=0),
            at=self._clock.now(),
        )


def spent_usd(book: Mapping[str, str], runs: Iterable[Document]) -> dict[str, float]:
    """Return what the LLM of each run has cost, by uid: what is written down, or what the run's status says if more."""
    spent = {uid: _usd(text) for uid, text in book.items()}
    for run in runs:
        uid, told = run["metadata"]["uid"], ((run.get("status") or {}).get("spent") or {}).get("llmCostUSD", 0)
        spent[uid] = max(spent.get(uid, 0.0), _usd(told))
    return spent


def _usd(text: object) -> float:
    """Read an amount; one that somebody wrote there who is not us is nothing."""
    try:
        found = float(str(text))
    except ValueError:
        return 0.0
    return found if math.isfinite(found) and found > 0 else 0.0
