"""The operator: kopf watches, a work queue calls `reconcile`, which gathers, lets the engine decide, and reports once.

Started by ``kopf run -m tunewright.controller`` or by `run`, which is what ``tunewright operator`` calls.
"""

import asyncio
import os
from collections.abc import Sequence

import kopf

from tunewright.adapters.kube.client import connected
from tunewright.controller import handlers
from tunewright.errors import TuningError

__all__ = ["handlers", "run"]


def run(namespaces: Sequence[str] = ()) -> None:
    """Serve the given namespaces, or the whole cluster, until a signal comes; raise `TuningError` where none can be."""
    asyncio.run(_log_in_once())
    os.environ["TUNEWRIGHT_NAMESPACES"] = ",".join(namespaces)
    kopf.configure(log_format=kopf.LogFormat.FULL)
    os.environ.setdefault("USER", "tunewright")  # kopf names itself by it, and an image need not know its user id
    try:
        kopf.run(clusterwide=not namespaces, namespaces=list(namespaces), standalone=True)
    except Exception as error:
        if not isinstance(error.__cause__, kopf.PermanentError):
            raise
        raise TuningError(f"the operator cannot start: {error.__cause__}") from None


async def _log_in_once() -> None:
    """Say in one line that there is no cluster, before kopf says it in many."""
    async with connected():
        pass
