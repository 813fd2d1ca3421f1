"""One TuningRun as this process knows it: its handle for the engine, and what its current generation asks for.

Made by `wiring`, kept by `reconcile` between passes only to save work: all of it can be made again.
"""

import asyncio
from dataclasses import dataclass

from tunewright.adapters.kube.acceptance import Accepted
from tunewright.adapters.kube.inventory import Capacity
from tunewright.adapters.kube.ledger import ConfigMapLedger
from tunewright.adapters.kube.names import RunReference
from tunewright.adapters.kube.status import RunView
from tunewright.adapters.kube.trials import KubeTrials
from tunewright.engine.run_handle import RunHandle
from tunewright.planner.summary import summarise


@dataclass
class LiveRun:
    """`accepted` is that of `generation`; the ledger keeps what the run was started with."""

    reference: RunReference
    generation: int
    accepted: Accepted
    ledger: ConfigMapLedger
    trials: KubeTrials
    handle: RunHandle

    @property
    def is_suspended(self) -> bool:
        """Whether the person wants no new trials."""
        return self.accepted.document.spec.suspend

    async def view(self, capacity: Capacity | None) -> RunView:
        """Return what the status is made from. Summing up a long run takes a while: it is done in a thread."""
        snapshot = await self.handle.snapshot()
        summary = await asyncio.to_thread(
            summarise, snapshot.problem, snapshot.settings, snapshot.space, snapshot.state
        )
        return RunView(
            run=self.reference,
            header=self.handle.header,
            settings=snapshot.settings,
            summary=summary,
            phase=snapshot.state.phase,
            attempts=self.trials.views,
            ledger_shards=self.ledger.shard_count,
            ledger_digest=self.ledger.digest,
            suspended=self.is_suspended,
            capacity=capacity,
        )

    def adopt(self, generation: int, accepted: Accepted) -> None:
        """Take over the mutable fields of a newer generation: they hold from the next attempt on."""
        self.generation = generation
        self.accepted = accepted
        self.trials.options = accepted.pod_options
        self.handle.trial_deadline_seconds = float(accepted.pod_options.pod.run_deadline_seconds)
