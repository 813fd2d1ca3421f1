"""Builds what a run needs from a TuningRun and the operator's settings. Called by `reconcile`."""

import asyncio
from collections.abc import Mapping
from typing import Any

import tunewright
from tunewright.adapters.catalog import catalog_of
from tunewright.adapters.clock import SystemClock
from tunewright.adapters.kube.acceptance import Accepted, accept, check_runs_in_cluster
from tunewright.adapters.kube.client import CONFIG_MAPS, KubeClient
from tunewright.adapters.kube.ledger import ConfigMapLedger
from tunewright.adapters.kube.names import RunReference
from tunewright.adapters.kube.prewarm import Prewarm
from tunewright.adapters.kube.problem_reader import ConfigMapTexts, NotAccepted
from tunewright.adapters.kube.site import on_site
from tunewright.adapters.kube.trials import KubeTrials
from tunewright.adapters.ledger.lines import decode_lines
from tunewright.adapters.trials.warm_start import WarmStartTrials
from tunewright.controller.counted_run import CountedRun
from tunewright.controller.live_run import LiveRun
from tunewright.controller.llm_advisor import SecretKeyAdvisor
from tunewright.controller.llm_allowance import NamespaceAllowance
from tunewright.controller.metrics import OperatorMetrics
from tunewright.controller.settings import OperatorSettings
from tunewright.controller.shared_spaces import SharedSpaces
from tunewright.controller.warm_start import WarmStart, read_warm_start
from tunewright.domain.catalog_loader import Catalog
from tunewright.engine.run_handle import RunHandle
from tunewright.planner.records import Header
from tunewright.ports import Advisor, Clock

Document = dict[str, Any]


class Wiring:
    """The adapters of this process."""

    def __init__(
        self,
        client: KubeClient,
        settings: OperatorSettings,
        environment: Mapping[str, str],
        catalog: Catalog | None = None,
        clock: Clock | None = None,
        metrics: OperatorMetrics | None = None,
    ) -> None:
        self._metrics = metrics or OperatorMetrics()
        self.clock: Clock = clock or SystemClock()
        self.catalog = catalog or catalog_of(environment)
        self._client = client
        self._settings = settings
        self._environment = environment
        self._spaces = SharedSpaces()

    async def accept(self, document: Document) -> Accepted:
        """Check a TuningRun with everything it refers to; raises what `acceptance.accept` raises."""
        texts = await self._referred(document)
        return await asyncio.to_thread(self._accept, document, texts)

    async def open(self, run: RunReference, generation: int, accepted: Accepted, told_digest: str = "") -> LiveRun:
        """Open the run's ledger; raises `LedgerError` when it cannot be read, is another request's, or lacks lines.

        `told_digest` is that of the line which the run's status names as the last. Raises `NotAccepted` where a new
        run is to start from a ledger that does not answer it.
        """
        ledger = ConfigMapLedger(self._client, run, decode_lines, told_digest)
        trials = KubeTrials(self._client, run, accepted.pod_options, is_watched=True)
        handle = CountedRun(
            ledger=ledger, trials=trials, clock=self.clock, built_space=accepted.space, metrics=self._metrics
        )
        live = LiveRun(run, generation, accepted, ledger, trials, handle, Prewarm(self._client, run))
        live.adopt(generation, accepted, self.advisor(run, accepted))
        header = self._header(run, accepted)
        warm_start = await self._warm_start(run, accepted, header, handle)
        if warm_start is not None:
            handle.trials = WarmStartTrials(warm_start.records, trials)
            header = header.model_copy(update={"warm_start_of": warm_start.digest})
        await handle.open(header)
        return live

    async def _warm_start(
        self, run: RunReference, accepted: Accepted, header: Header, handle: RunHandle
    ) -> WarmStart | None:
        """Return the ledger that answers, if one is asked for. A run that has begun goes on without one."""
        wanted = accepted.document.spec.warm_start
        if wanted is None:
            return None
        try:
            return await read_warm_start(self._client, run.namespace, wanted.ledger_from.name, header, decode_lines)
        except NotAccepted:
            if await handle.read() is None:
                raise
            return None

    def advisor(self, run: RunReference, accepted: Accepted) -> Advisor | None:
        """Return the LLM of a run: its own, or the operator's; None where there is neither."""
        if accepted.llm is None:
            return None
        own, client, clock = self._settings.llm, self._client, self.clock
        advisor = SecretKeyAdvisor(client, run.namespace, accepted.llm, self._environment, clock, own)
        limit = self._settings.site.llm_limit(run.namespace)
        return advisor if limit is None else NamespaceAllowance(advisor, client, run, limit, clock)

    def _accept(self, document: Document, texts: ConfigMapTexts) -> Accepted:
        own = self._settings
        accepted = accept(
            document,
            self.catalog,
            config_maps=texts,
            default_image=own.trial_image,
            default_llm=own.llm,
            build=self._spaces.build,
        )
        check_runs_in_cluster(accepted)
        return on_site(accepted, own.site, document["metadata"]["namespace"])

    def _header(self, run: RunReference, accepted: Accepted) -> Header:
        return Header(
            run=run.key,
            run_uid=run.uid,
            problem=accepted.problem,
            settings=accepted.settings,
            device=accepted.device,
            operator_version=tunewright.__version__,
            catalog_version=self.catalog.version,
            spec_digest=accepted.document.spec.digest(),
            image=accepted.pod_options.image,
            at=self.clock.now(),
        )

    async def _referred(self, document: Document) -> dict[tuple[str, str], str]:
        """Read the ConfigMap that holds the model, if there is one."""
        reference = document["spec"]["workload"]["model"].get("configMapKeyRef")
        if not reference:
            return {}
        found = await self._client.find(CONFIG_MAPS, document["metadata"]["namespace"], reference["name"])
        text = ((found or {}).get("data") or {}).get(reference["key"])
        return {} if text is None else {(reference["name"], reference["key"]): text}
