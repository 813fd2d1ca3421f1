"""Reads a run's ledger out of the cluster. Called by `tunewright export`, whose file `tunewright replay` takes."""

from tunewright.adapters.kube.client import TUNING_RUNS, connected
from tunewright.adapters.kube.ledger import read_shards, shards_text
from tunewright.adapters.kube.names import RunReference
from tunewright.errors import InvalidInput


async def exported_ledger(namespace: str, name: str, kubeconfig: str | None = None) -> str:
    """Return the JSON lines of a run's ledger; raise `InvalidInput` where there is no such run or no ledger yet."""
    async with connected(kubeconfig) as client:
        found = await client.find(TUNING_RUNS, namespace, name)
        if found is None:
            raise InvalidInput.of("TuningRun", f"{namespace}/{name}", "does not exist: see kubectl get tuningruns -A")
        run = RunReference(namespace, name, found["metadata"]["uid"])
        text = shards_text(await read_shards(client, run))
    if not text:
        raise InvalidInput.of("TuningRun", run.key, "has no ledger yet: it is not accepted, or not seen by an operator")
    return text
