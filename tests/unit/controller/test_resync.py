"""Which runs the operator looks at by itself now and then."""

from typing import Any

import kopf

from tests.support.kube_documents import a_tuning_run
from tunewright.adapters.kube.client import KubeClient
from tunewright.controller.handlers import configure
from tunewright.controller.reconcile import Reconciler
from tunewright.controller.settings import OperatorSettings
from tunewright.controller.wiring import Wiring


def a_seen_run(name: str, *, generation: int = 1, finished: str = "False") -> dict[str, Any]:
    document = a_tuning_run(name)
    document["metadata"] |= {"namespace": "team-a", "uid": name, "resourceVersion": "7", "generation": generation}
    document["status"] = {"observedGeneration": 1, "conditions": [{"type": "Finished", "status": finished}]}
    return document


async def test_a_finished_run_is_left_alone_until_it_changes() -> None:
    """Five hundred of them, asked for once a minute, would cost more than all else that the operator does at rest."""
    client = KubeClient(None)
    reconciler = Reconciler(client, Wiring(client, OperatorSettings(), {}))
    runs = [
        a_seen_run("done", finished="True"),
        a_seen_run("busy"),
        a_seen_run("raised", generation=2, finished="True"),
    ]
    for run in runs:
        reconciler.saw_run(f"team-a/{run['metadata']['name']}", run, is_gone=False)
    assert await reconciler.reconcile("team-a/done") is None
    reconciler.known |= {"team-a/busy", "team-a/raised"}
    assert reconciler.unfinished == ["team-a/busy", "team-a/raised"]


def test_no_object_waits_until_others_were_idle() -> None:
    """With a limit, kopf shows objects beyond it only when the workers of others have had nothing to do for a while."""
    settings = kopf.OperatorSettings()
    configure(settings, namespaced=True)
    assert settings.queueing.worker_limit is None
