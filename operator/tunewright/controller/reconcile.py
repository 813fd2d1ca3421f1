"""One pass over one TuningRun: gather, accept, let the engine act, write the status once. Called by the work queue.

Level-based: everything is derived from the object, the ledger and the Jobs, so a pass may be repeated at any time.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

from tunewright.adapters.kube import labels
from tunewright.adapters.kube.client import CONFIG_MAPS, TUNING_RUNS, KubeClient
from tunewright.adapters.kube.events import post
from tunewright.adapters.kube.inventory import Capacity, find_capacity
from tunewright.adapters.kube.ledger import keeping
from tunewright.adapters.kube.manifests import result_config_map
from tunewright.adapters.kube.merge_patch import merge_patch
from tunewright.adapters.kube.names import RunReference
from tunewright.adapters.kube.problem_reader import NotAccepted
from tunewright.adapters.kube.results import result_files
from tunewright.adapters.kube.run_conditions import SuspendedBy
from tunewright.adapters.kube.seen import is_newer, without_bookkeeping
from tunewright.adapters.kube.status import (
    RunView,
    blocked_status,
    is_over,
    refused_status,
    run_status,
)
from tunewright.adapters.kube.transitions import transitions
from tunewright.adapters.kube.waiting import capacity_by_attempts
from tunewright.controller.live_run import LiveRun
from tunewright.controller.wiring import Wiring
from tunewright.engine.step import step
from tunewright.errors import (
    CatalogError,
    ClusterError,
    Conflict,
    DoesNotFit,
    IllegalConfig,
    InvalidInput,
    LedgerError,
    Transient,
)

Document = dict[str, Any]

_log = logging.getLogger(__name__)

PASS_SECONDS = 0.02
"""After which a pass takes no further step: a run that always has something to do must not starve the others."""
LATEST_STATUS_SECONDS = 10.0
"""How long such a run may go on before its status says so."""
RUNNING_SECONDS = 15.0
ASKED_SECONDS = 1.0
CAPACITY_SECONDS = 15.0
REFERENCE_SECONDS = 30.0
LEDGER_SECONDS = 15.0
"""How soon a damaged ledger is read again. ConfigMaps are not watched: somebody may have restored it."""
_REFUSALS = (InvalidInput, IllegalConfig, DoesNotFit, CatalogError)


class Reconciler:
    """Keeps the live runs of this process. `reconcile` never runs twice at once for one key."""

    def __init__(self, client: KubeClient, wiring: Wiring, wake: Callable[[str], None] = lambda _: None) -> None:
        """`wake` is told of a run that wants to be seen because something of this process is done."""
        self._client = client
        self._wake = wake
        self._wiring = wiring
        self._live: dict[str, LiveRun] = {}
        self._set_aside: dict[str, LiveRun] = {}
        self._runs: dict[str, Document] = {}
        """TuningRuns as the watch has shown them, or as they were read or written since."""
        self._to_read: set[str] = set()
        """Those of which that may not be the latest."""
        self.known: set[str] = set()

    @property
    def unfinished(self) -> list[str]:
        """Runs that are not over. One that is over waits for a change; a watch is silent for minutes at most."""
        return sorted(key for key in self.known if not is_over(self._runs[key]))

    def saw_run(self, key: str, document: Document, *, is_gone: bool) -> None:
        """A TuningRun is shown by the watch, read or written. A deleted one is looked for: there may be a namesake."""
        known = self._runs.get(key)
        if is_gone:
            self._to_read.add(key)
        elif known is None or is_newer(document, known):
            self._runs[key] = without_bookkeeping(document)

    def saw_of_run(self, key: str, plural: str, document: Document, *, is_gone: bool) -> None:
        """The watch shows one of the `jobs` or `pods` of a run; before a run is opened nobody needs it."""
        live = self._live.get(key)
        if live is not None:
            live.trials.saw(plural, document, is_gone=is_gone)

    def look_again(self, key: str) -> None:
        """Let the next pass ask the API server for everything: a watch may have gone silent."""
        self._to_read.add(key)
        if key in self._live:
            self._live[key].trials.look_again()

    async def reconcile(self, key: str) -> float | None:
        """Bring one run a step further; return after how many seconds it wants to be seen again, or None."""
        document = await self._document(key)
        if document is None or document["metadata"].get("deletionTimestamp"):
            self.known.discard(key)
            await self._forget(key)
            return None
        self.known.add(key)
        try:
            return await self._advance(key, document)
        except Exception as error:
            self._to_read.add(key)
            if isinstance(error, LedgerError) and key in self._live:
                # What is remembered may differ from what was written: read it anew.
                self._set_aside[key] = self._live.pop(key)
            raise

    async def close(self) -> None:
        """Abandon what is in memory; nothing of it is needed again."""
        for key in [*self._live, *self._set_aside]:
            await self._forget(key)

    async def _document(self, key: str) -> Document | None:
        """Return a run as it is known, else as it is."""
        if key in self._to_read or key not in self._runs:
            namespace, _, name = key.partition("/")
            found = await self._client.find(TUNING_RUNS, namespace, name)
            self._to_read.discard(key)
            if found is None:
                self._runs.pop(key, None)
            else:
                self.saw_run(key, found, is_gone=False)
        return self._runs.get(key)

    async def _advance(self, key: str, document: Document) -> float | None:
        run = _reference(document)
        before, generation = document.get("status") or {}, document["metadata"]["generation"]
        if key not in self._live and is_over(document):
            return None  # reported to the end: nothing that it rests on is needed any more
        known = self._live.get(key)
        if known is not None and (known.reference, known.generation) == (run, generation) and known.is_busy:
            return None  # it wakes its run when it is done
        now = self._wiring.clock.now()
        try:
            live = await self._current(key, run, document)
            suspended = live.suspended_by(document["metadata"].get("annotations"))
            return await self._pass(key, live, before, suspended, now)
        except _REFUSALS as error:
            reason = error.reason if isinstance(error, NotAccepted) else "Illegal"
            await self._report(run, before, refused_status(reason, str(error), before, generation, now))
            return REFERENCE_SECONDS if reason == "ReferenceNotFound" else None
        except LedgerError as error:
            if isinstance(error.__cause__, ClusterError):
                await self._tell_blocked(run, before, generation, error.__cause__)
                raise  # the API server's fault, not the ledger's
            await self._forget(key)
            await self._report(run, before, blocked_status(str(error), before, generation, now, "LedgerUnreadable"))
            return LEDGER_SECONDS
        except ClusterError as error:
            await self._tell_blocked(run, before, generation, error)
            raise

    async def _pass(
        self, key: str, live: LiveRun, before: Document, suspended: SuspendedBy | None, now: str
    ) -> float | None:
        live.trials.begin_pass()
        capacity = None if suspended else await self._capacity(live)
        is_waiting = capacity is not None and capacity.available is False and live.requires_capacity
        if capacity is not None and not is_waiting and (pulling := await live.waits_for_image()) is not None:
            capacity, is_waiting = pulling, True
        if suspended:
            await live.interrupt()
        more = await self._step(live, suspended=suspended is not None or is_waiting)
        live.capacity = capacity or live.capacity
        if live.handle.is_deciding:
            return None
        if more and time.monotonic() < live.told_at + LATEST_STATUS_SECONDS:
            return 0.0
        tidying = asyncio.create_task(live.tidy())
        try:
            view = await live.view(live.capacity or capacity_by_attempts(live.trials.views, before), suspended)
            live.capacity = None
            if view.summary.finish_reason is not None:
                await tidying  # nobody looks at a run again whose status says that it is over
                await self._finish(key, live, view, before, now)
                return None
            live.drop_page()
            await self._report(live.reference, before, run_status(view, before, live.generation, now))
            live.told_at = time.monotonic()
        except asyncio.CancelledError:
            tidying.cancel()
            raise
        finally:
            await tidying  # nothing outlives the pass
        return CAPACITY_SECONDS if is_waiting else 0.0 if more else _next_look(live)

    async def _finish(self, key: str, live: LiveRun, view: RunView, before: Document, now: str) -> None:
        """Store the results, say so in the status and let go of the run, once its report is drawn."""
        live.draw(lambda: self._wake(key))
        if live.is_drawing:
            return
        await self._store_results(live, view)
        await self._report(live.reference, before, run_status(view, before, live.generation, now))
        await self._forget(key)

    async def _current(self, key: str, run: RunReference, document: Document) -> LiveRun:
        """Return the live run of exactly this object and generation."""
        generation = document["metadata"]["generation"]
        live = self._live.get(key)
        if live is not None and live.reference.uid != run.uid:
            await self._forget(key)
            live = None
        if live is not None and live.generation == generation:
            return live
        accepted = await self._wiring.accept(document)
        if live is None:
            told = ((document.get("status") or {}).get("results") or {}).get("ledgerDigest", "")
            live = self._live[key] = await self._wiring.open(run, generation, accepted, told)
            live.handle.on_decision = lambda: self._wake(key)
            await live.take_over(self._set_aside.pop(key, None))
        live.adopt(generation, accepted, self._wiring.advisor(run, accepted))
        return live

    async def _forget(self, key: str) -> None:
        for lives in (self._live, self._set_aside):
            live = lives.pop(key, None)
            if live is not None:
                await live.close()

    async def _capacity(self, live: LiveRun) -> Capacity | None:
        """Look for free nodes before the first trial; later ones wait in the scheduler's queue."""
        if live.handle.state.trials or live.handle.state.finish is not None:
            return None
        wanted = live.nodes_of_validation
        return await find_capacity(self._client, live.accepted.pod_options, 1, nodes_of_validation=wanted)

    async def _step(self, live: LiveRun, *, suspended: bool) -> bool:
        """Let the engine work until it rests or its time is over; return whether there is more."""
        until = time.monotonic() + PASS_SECONDS
        while await step(live.handle, live.accepted.settings, suspended=suspended):
            if time.monotonic() >= until:
                return True
        return False

    async def _tell_blocked(self, run: RunReference, before: Document, generation: int, error: ClusterError) -> None:
        """Say in the status what the API server refuses. A passing fault is not worth a word: it is tried again."""
        if not isinstance(error, Transient):
            now = self._wiring.clock.now()
            await self._report(run, before, blocked_status(str(error), before, generation, now, "Blocked"))

    async def _store_results(self, live: LiveRun, view: RunView) -> None:
        """Write the result ConfigMap of a finished run; one of that name must be the run's own."""
        run, keep = live.reference, live.accepted.document.spec.results.keep
        files = await asyncio.to_thread(result_files, view.header.problem, view.summary)
        document = result_config_map(run, files, await live.page(), keep=keep)
        name = document["metadata"]["name"]
        try:
            await self._client.create(CONFIG_MAPS, run.namespace, document)
        except Conflict:
            found = await self._client.find(CONFIG_MAPS, run.namespace, name)
            if found is None or found["metadata"].get("deletionTimestamp"):
                raise Transient(f"the ConfigMap {name} of a deleted namesake is still going away") from None
            if not labels.is_owned_by(found, run):
                raise Conflict(f"the ConfigMap {run.namespace}/{name} is not ours: delete or rename it") from None
            change = {"metadata": keeping(run, keep=keep)} | {key: document.get(key) for key in ("data", "binaryData")}
            await self._client.patch(CONFIG_MAPS, run.namespace, name, change)

    async def _report(self, run: RunReference, before: Document, status: Document) -> None:
        """Write the status if it differs from what is there, and an event for each transition."""
        patch = merge_patch(before, status)
        if not patch:
            return
        # With the uid, so that a namesake created meanwhile never gets this run's status.
        guarded = {"metadata": {"uid": run.uid}, "status": patch}
        written = await self._client.patch(TUNING_RUNS, run.namespace, run.name, guarded, subresource="status")
        self.saw_run(run.key, written, is_gone=False)
        if before.get("state") != status["state"]:
            _log.info("%s: %s: %s", run.key, status["state"], status["answer"])
        for event in transitions(run, before, status, self._wiring.clock.now()):
            await post(self._client, event)


def _reference(document: Document) -> RunReference:
    metadata = document["metadata"]
    return RunReference(metadata["namespace"], metadata["name"], metadata["uid"])


def _next_look(live: LiveRun) -> float | None:
    """Jobs and Pods announce themselves; deadlines and answers of the LLM do not."""
    if live.handle.asked:
        return ASKED_SECONDS
    return RUNNING_SECONDS if live.handle.state.running else None
