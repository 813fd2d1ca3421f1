"""One TuningRun as this process knows it: its handle for the engine, and what its current generation asks for.

Made by `wiring`, kept by `reconcile` between passes only to save work: all of it can be made again.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tunewright.adapters.kube.acceptance import Accepted
from tunewright.adapters.kube.attempts import AttemptView
from tunewright.adapters.kube.disposal import Ended
from tunewright.adapters.kube.inventory import Capacity
from tunewright.adapters.kube.ledger import ConfigMapLedger
from tunewright.adapters.kube.names import RunReference
from tunewright.adapters.kube.prewarm import Prewarm
from tunewright.adapters.kube.results import result_page
from tunewright.adapters.kube.run_conditions import SuspendedBy, suspended_by
from tunewright.adapters.kube.status import RunView
from tunewright.adapters.kube.trials import KubeTrials
from tunewright.engine.run_handle import RunHandle
from tunewright.planner.records import TrialFinished
from tunewright.planner.state import RunState
from tunewright.planner.summary import Summary, summarise
from tunewright.planner.trial import failure_of
from tunewright.ports import Advisor
from tunewright.trial_protocol.report import RETRIED_FAILURES

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
    prewarm: Prewarm
    capacity: Capacity | None = None
    """What was found before the first trial, and no status says yet."""
    told_at: float = field(default_factory=time.monotonic)
    """When the status was written last, or the run opened."""
    _summed: tuple[str, Summary] | None = None
    """The latest summary, and the digest of the ledger that it sums up."""
    _page: asyncio.Task[dict[str, bytes]] | None = None

    def suspended_by(self, annotations: Mapping[str, str] | None) -> SuspendedBy | None:
        """Return what says that no new trials are wanted; a run that is to stop is not suspended."""
        spec = self.accepted.document.spec
        return None if spec.stop else suspended_by(annotations, spec_says=spec.suspend)

    @property
    def nodes_of_validation(self) -> int:
        """How many nodes a measurement takes; none where nothing is to be measured."""
        validation = self.accepted.settings.validation
        return validation.nodes if validation.top_k or validation.include_baseline else 0

    @property
    def requires_capacity(self) -> bool:
        """Whether nothing starts before there is room. A queue looks for room itself, and may make some."""
        pod = self.accepted.pod_options.pod
        return pod.capacity_check == "Require" and pod.queue_name is None

    async def waits_for_image(self) -> Capacity | None:
        """Return how far the image is pulled, while the first trial is to wait for that."""
        spec = self.accepted.document.spec
        if not spec.trial.prewarm or spec.stop:
            return None
        return await self.prewarm.look(self.trials.options, self.handle.clock.now())

    async def interrupt(self) -> None:
        """End what runs, where suspension means that. It runs again afterwards."""
        await self._end_prewarm()
        if self.accepted.document.spec.on_suspend == "DeleteRunning" and self.handle.state.running:
            await self.trials.interrupt()

    async def tidy(self) -> None:
        """Give ended Jobs their lifetime, and let the ledger outlive the run or go with it."""
        results = self.accepted.document.spec.results
        if self.handle.state.trials or self.handle.state.finish is not None:
            await self._end_prewarm()
        ended = _ended(self.handle.state, self.trials.views, results.keep_failed_trials)
        await self.trials.dispose(ended, results)
        await self.ledger.outlive_run(keep=results.keep)

    async def _end_prewarm(self) -> None:
        if self.accepted.document.spec.trial.prewarm:
            await self.prewarm.end()

    async def view(self, capacity: Capacity | None, suspended: SuspendedBy | None) -> RunView:
        """Return what the status is made from."""
        summary = await self._summary()
        return RunView(
            run=self.reference,
            header=self.handle.header,
            settings=self.handle.state.settings or self.handle.header.settings,
            summary=summary,
            phase=self.handle.state.phase,
            attempts=self.trials.views,
            ledger_shards=self.ledger.shard_count,
            ledger_digest=self.ledger.digest,
            suspended=suspended,
            capacity=capacity,
        )

    async def _summary(self) -> Summary:
        """Sum up what the ledger says, once for each state of it: of a long run that takes a while, so in a thread."""
        if self._summed is None or self._summed[0] != self.ledger.digest:
            told, seen = self.ledger.digest, await self.handle.snapshot()
            summary = await asyncio.to_thread(summarise, seen.problem, seen.settings, seen.space, seen.state)
            self._summed = told, summary
        return self._summed[1]

    @property
    def is_drawing(self) -> bool:
        """Whether the report of this finished run is still being drawn."""
        return self._page is not None and not self._page.done()

    @property
    def is_busy(self) -> bool:
        """Whether a decision or a report is under way: nothing else can happen to the run."""
        return self.is_drawing or self.handle.is_deciding

    def draw(self, drawn: Callable[[], None]) -> None:
        """Begin to draw the report of a finished run; `drawn` is called when that is over. Nobody else waits for it."""
        if self._page is None:
            self._page = asyncio.create_task(self._drawn())
            self._page.add_done_callback(lambda _: drawn())

    async def page(self) -> dict[str, bytes]:
        """Return the report that was drawn; nothing where that failed or was not begun."""
        return await self._page if self._page is not None else {}

    def drop_page(self) -> None:
        """The run is abandoned, or goes on: what is drawn of it is of no use."""
        if self._page is not None:
            self._page.cancel()
            self._page = None

    async def close(self) -> None:
        """Abandon what goes on for this run."""
        self.drop_page()
        await self.handle.close()
        await self.trials.close()

    async def _drawn(self) -> dict[str, bytes]:
        """Draw the report. It is a picture of the result: without it the result is still whole."""
        try:
            async with _one_page:
                return await asyncio.to_thread(result_page, await self.ledger.records(), await self.handle.space())
        except Exception:
            _log.exception("%s: no report page", self.reference.key)
            return {}

    async def take_over(self, earlier: "LiveRun | None") -> None:
        """Go on waiting for what an earlier reading of this run has asked: an answer that is paid for is not lost."""
        if earlier is None:
            return
        for number, asked in self.handle.state.asked.items():
            if earlier.reference == self.reference and asked.advice is None and number in earlier.handle.asked:
                self.handle.asked[number] = earlier.handle.asked.pop(number)
        await earlier.close()

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


def _ended(state: RunState, views: Sequence[AttemptView], kept: int) -> Ended:
    """Return how the attempts ended that still have Jobs, and last the latest `kept` failures of the run."""
    keys = [(view.observation.trial, view.observation.attempt) for view in views]
    ends = {key: failure_of(end) for key in keys if (end := _end_of(state, *key)) is not None}
    failed = state.tally.failed_ends
    latest = {(end.trial, end.attempt): failure_of(end) for end in failed[max(0, len(failed) - kept) :]}
    return {key: failure for key, failure in ends.items() if key not in latest} | latest


def _end_of(state: RunState, trial: str, attempt: int) -> TrialFinished | None:
    known = state.trials.get(trial)
    return next((one.finished for one in known.attempts if one.number == attempt), None) if known else None
