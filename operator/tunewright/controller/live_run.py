"""One TuningRun as this process knows it: its handle for the engine, and what its current generation asks for.

Made by `wiring`, kept by `reconcile` between passes only to save work: all of it can be made again.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace

from tunewright.adapters.kube.acceptance import Accepted
from tunewright.adapters.kube.inventory import Capacity
from tunewright.adapters.kube.ledger import ConfigMapLedger
from tunewright.adapters.kube.names import RunReference
from tunewright.adapters.kube.results import result_page
from tunewright.adapters.kube.run_conditions import SuspendedBy, suspended_by
from tunewright.adapters.kube.status import RunView
from tunewright.adapters.kube.trials import KubeTrials
from tunewright.engine.run_handle import RunHandle
from tunewright.planner.state import RunState, failure_of
from tunewright.planner.summary import summarise
from tunewright.ports import Advisor
from tunewright.trial_protocol.report import RETRIED_FAILURES, FailureClass

_log = logging.getLogger(__name__)
_one_page = asyncio.Semaphore(1)
"""Drawing takes a core for a second: many runs that end together draw one after the other."""
_NODE_FAULTS = RETRIED_FAILURES - {"Preempted"}
"""After these another node is tried: preemption says nothing about the node."""


@dataclass
class LiveRun:
    """`accepted` is that of `generation`; the ledger keeps what the run was started with."""

    reference: RunReference
    generation: int
    accepted: Accepted
    ledger: ConfigMapLedger
    trials: KubeTrials
    handle: RunHandle

    def suspended_by(self, annotations: Mapping[str, str] | None) -> SuspendedBy | None:
        """Return what says that no new trials are wanted; a run that is to stop is not suspended."""
        spec = self.accepted.document.spec
        return None if spec.stop else suspended_by(annotations, spec_says=spec.suspend)

    async def interrupt(self) -> None:
        """End what runs, where suspension means that. It runs again afterwards."""
        if self.accepted.document.spec.on_suspend == "DeleteRunning" and self.handle.state.running:
            await self.trials.interrupt()

    async def tidy(self) -> None:
        """Give ended Jobs their lifetime, and let the ledger outlive the run or go with it."""
        results = self.accepted.document.spec.results
        await self.trials.dispose(_ended(self.handle.state), results)
        await self.ledger.outlive_run(keep=results.keep)

    async def view(self, capacity: Capacity | None, suspended: SuspendedBy | None) -> RunView:
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
            suspended=suspended,
            capacity=capacity,
        )

    async def page(self) -> dict[str, bytes]:
        """Return the report of a finished run. It is a picture of the result: without it the result is still whole."""
        try:
            async with _one_page:
                return await asyncio.to_thread(result_page, await self.handle.ledger.read(), await self.handle.space())
        except Exception:
            _log.exception("%s: no report page", self.reference.key)
            return {}

    def adopt(self, generation: int, accepted: Accepted, advisor: Advisor | None) -> None:
        """Take over the mutable fields of a newer generation: they hold from the next attempt on."""
        self.generation = generation
        self.accepted = accepted
        self.trials.options = replace(accepted.pod_options, image=self._image(accepted))
        self.trials.nodes_to_avoid = lambda trial: faulty_nodes(self.handle.state, trial)
        self.handle.advisor = advisor
        self.handle.trial_deadline_seconds = float(accepted.pod_options.pod.run_deadline_seconds)

    def _image(self, accepted: Accepted) -> str:
        """A run keeps the image that it started with: the operator's default may change under it."""
        recorded = self.handle.state.header
        return (recorded.image if recorded else "") or accepted.pod_options.image


def faulty_nodes(state: RunState, trial: str) -> frozenset[str]:
    """Return the nodes on which earlier attempts of a trial met a fault of the node."""
    ended = (attempt.finished for attempt in state.trials[trial].attempts)
    return frozenset(end.node for end in ended if end is not None and end.node and failure_of(end) in _NODE_FAULTS)


def _ended(state: RunState) -> dict[tuple[str, int], FailureClass | None]:
    return {(end.trial, end.attempt): failure_of(end) for end in state.finished_attempts}
