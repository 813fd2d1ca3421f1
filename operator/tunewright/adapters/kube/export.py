"""Reads a run's ledger out of the cluster, also a kept one of a run that is gone.

Called by `tunewright export`, whose file `tunewright replay` takes.
"""

from tunewright.adapters.kube.client import connected
from tunewright.adapters.kube.kept import find_reference
from tunewright.adapters.kube.ledger import read_shards, shards_text
from tunewright.errors import InvalidInput


async def exported_ledger(namespace: str, name: str, kubeconfig: str | None = None) -> str:
    """Return the JSON lines of a run's ledger; raise `InvalidInput` where there is no such run or no ledger yet."""
    async with connected(kubeconfig) as client:
        run = await find_reference(client, namespace, name)
        if run is None:
            raise InvalidInput.of("TuningRun", f"{namespace}/{name}", "does not exist: see kubectl get tuningruns -A")
        text = shards_text(await read_shards(client, run))
    if not text:
        raise InvalidInput.of("TuningRun", run.key, "has no ledger yet: it is not accepted, or not seen by an operator")
    return text
