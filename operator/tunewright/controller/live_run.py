"""One TuningRun as this process knows it: its handle for the engine, and what its current generation asks for.

Made by `wiring`, kept by `reconcile` between passes only to save work: all of it can be made again.
"""

from dataclasses import dataclass

from tunewright.adapters.kube.acceptance import Accepted
from tunewright.adapters.kube.ledger import ConfigMapLedger
from tunewright.adapters.kube.names import RunReference
from tunewright.adapters.kube.trials import KubeTrials
from tunewright.engine.run_handle import RunHandle


@dataclass
class LiveRun:
    """`accepted` is that of `generation`; the ledger keeps what the run was started with."""

    reference: RunReference
    generation: int
    accepted: Accepted
    ledger: ConfigMapLedger
    trials: KubeTrials
    handle: RunHandle
    has_results: bool = False

    @property
    def is_suspended(self) -> bool:
        """Whether the person wants no new trials."""
        return self.accepted.document.spec.suspend

    def adopt(self, generation: int, accepted: Accepted) -> None:
        """Take over the mutable fields of a newer generation: they hold from the next attempt on."""
        self.generation = generation
        self.accepted = accepted
        self.trials.options = accepted.pod_options
        self.handle.trial_deadline_seconds = float(accepted.pod_options.pod.run_deadline_seconds)
