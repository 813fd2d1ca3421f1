"""Names of the objects that belong to a run: derived, so that a restarted operator finds what it made before.

The longest trial name has 59 characters (40 + 7 + 3 + 6 and three dashes), below the 61 that a Job with indexed
completions may have.
"""

import hashlib
from dataclasses import dataclass

from tunewright.trial_protocol.identity import TrialIdentity

_DIGEST_DIGITS = 6


@dataclass(frozen=True)
class RunReference:
    """Whose object something is."""

    namespace: str
    name: str
    uid: str

    @property
    def key(self) -> str:
        """NAMESPACE/NAME, as people and ledgers write it."""
        return f"{self.namespace}/{self.name}"


def trial_job_name(run: RunReference, identity: TrialIdentity) -> str:
    """Return ``<run>-t0012-a1-3fa9c2``: the last part tells apart a namesake run and another configuration."""
    seed = f"{run.uid}/{identity.kind}/{identity.config_digest}"
    digest = hashlib.sha256(seed.encode()).hexdigest()[:_DIGEST_DIGITS]
    return f"{run.name}-{identity.trial}-a{identity.attempt}-{digest}"


def nodes_service_name(run: RunReference) -> str:
    """Return the name of the Service that names the Pods of measurements on several nodes."""
    return f"{run.name}-nodes-{hashlib.sha256(run.uid.encode()).hexdigest()[:_DIGEST_DIGITS]}"


def ledger_shard_name(run: RunReference, number: int) -> str:
    """Return the name of one ConfigMap of the ledger."""
    return f"{run.name}-ledger-{number:04d}"


def result_name(run: RunReference) -> str:
    """Return the name of the ConfigMap with the results."""
    return f"{run.name}-result"
