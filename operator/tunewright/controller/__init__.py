"""The operator: kopf watches, a work queue calls `reconcile`, which gathers, lets the engine decide, and reports once.

Started by ``kopf run -m tunewright.controller`` or by `run`, which is what ``tunewright operator`` calls.
"""

import os
from collections.abc import Sequence

import kopf

from tunewright.controller import handlers

__all__ = ["handlers", "run"]


def run(namespaces: Sequence[str] = ()) -> None:
    """Serve the given namespaces, or the whole cluster, until a signal comes."""
    os.environ["TUNEWRIGHT_NAMESPACED"] = "true" if namespaces else "false"
    kopf.configure(log_format=kopf.LogFormat.FULL)
    os.environ.setdefault("USER", "tunewright")  # kopf names itself by it, and an image need not know its user id
    kopf.run(clusterwide=not namespaces, namespaces=list(namespaces), standalone=True)
