"""kopf as an informer: every event only adds the key of its run to the work queue. Imported by kopf at start.

No create, update or delete handlers, timers or daemons: those would put annotations or finalizers on people's objects.
"""

import logging
import os
import random
import threading
from typing import Any

import kopf

from tunewright.adapters.kube import labels
from tunewright.adapters.kube.spec.tuning_run import GROUP, KIND, PLURAL, VERSION
from tunewright.controller import logs
from tunewright.controller.loop import OperatorLoop
from tunewright.controller.no_memory import NoDiffs, NoProgress
from tunewright.controller.settings import OperatorSettings
from tunewright.errors import TuningError

_OWN_LABEL = {labels.MANAGED_BY: labels.MANAGER}
"""Jobs and Pods of ours are trials, or pull their image."""
_SERVER_TIMEOUT_SECONDS = 300
EXIT_SECONDS = 20.0
"""From the end of kopf's own tasks to the end of the process; a kubelet gives it 30 s from when it asks for that."""


class _Process:
    """The one loop of this process."""

    loop: OperatorLoop | None = None


@kopf.on.startup()
async def start(settings: kopf.OperatorSettings, **_: Any) -> None:  # noqa: ANN401 - kopf's keywords
    """Configure kopf and start our own tasks. Without a cluster or a port, give up: a retry finds no other."""
    try:
        own = OperatorSettings.from_environment(os.environ)
        configure(settings, namespaced=own.namespaced)
        if own.log_format == "json":
            logs.use_json()
        _Process.loop = OperatorLoop(own)
        await _Process.loop.start()
    except (TuningError, OSError) as error:
        raise kopf.PermanentError(str(error)) from None


@kopf.on.cleanup()
async def stop(**_: Any) -> None:  # noqa: ANN401 - kopf's keywords
    """End our own tasks."""
    end_in_any_case()
    if _Process.loop is not None:
        await _Process.loop.stop()
        _Process.loop = None


def end_in_any_case() -> None:
    """Let the process end soon, as a crash would where it has to: whoever started it then starts another.

    kopf gives up when an API server that restarts refuses one of its watches, closes its connections, and may then wait
    for ever for another watch, which waits for somebody to log in.
    """
    deadline = threading.Timer(EXIT_SECONDS, os._exit, (1,))
    deadline.daemon = True
    deadline.start()


@kopf.on.event(GROUP, VERSION, PLURAL)
async def run_changed(
    namespace: str | None,
    name: str | None,
    event: kopf.RawEvent,
    **_: Any,  # noqa: ANN401
) -> None:
    """A TuningRun was seen, changed or deleted; the names of the arguments are kopf's."""
    if _Process.loop is not None and namespace and name:
        is_gone = event["type"] == "DELETED"
        _Process.loop.saw_run(f"{namespace}/{name}", dict(event["object"]), is_gone=is_gone)


@kopf.on.event("batch", "v1", "jobs", labels=_OWN_LABEL)
@kopf.on.event("", "v1", "pods", labels=_OWN_LABEL)
async def trial_changed(
    namespace: str | None,
    meta: kopf.Meta,
    resource: kopf.Resource,
    event: kopf.RawEvent,
    **_: Any,  # noqa: ANN401
) -> None:
    """A Job or Pod of a run was seen, changed or deleted; the names of the arguments are kopf's."""
    if _Process.loop is None or not namespace:
        return
    # By label, and by owner: somebody may have changed the label.
    owners = {owner["name"] for owner in meta.get("ownerReferences") or () if owner["kind"] == KIND}
    is_gone = event["type"] == "DELETED"
    for name in owners | {name for name in [meta.labels.get(labels.RUN)] if name}:
        _Process.loop.saw_of_run(f"{namespace}/{name}", resource.plural, dict(event["object"]), is_gone=is_gone)


def configure(settings: kopf.OperatorSettings, *, namespaced: bool) -> None:
    """Set what kopf's defaults leave open: bounded waits, no scanning where rights are missing, our own names."""
    logging.getLogger("kopf.objects").setLevel(logging.WARNING)  # a line for each event says nothing
    settings.peering.standalone = True
    # In cluster mode scanning lets kopf survive a CRD that is removed and added again; without cluster-wide rights it
    # would start blind for a minute.
    settings.scanning.disabled = namespaced
    settings.posting.level = logging.WARNING
    settings.posting.loggers = False
    settings.posting.reporting_component = "tunewright.dev/operator"
    settings.posting.event_name_prefix = "tunewright-"
    settings.persistence.finalizer = f"{GROUP}/finalizer"
    settings.persistence.progress_storage = NoProgress()
    settings.persistence.diffbase_storage = NoDiffs()
    settings.execution.max_workers = 4
    # Of no use here, where a handler only adds a key: a limit lets the objects beyond it wait until others were idle.
    settings.queueing.worker_limit = None
    settings.queueing.idle_timeout = 1.0
    # Spread the watches' ends, so that not all reconnect at once.
    settings.watching.server_timeout = _SERVER_TIMEOUT_SECONDS + random.randrange(60)
    settings.watching.client_timeout = settings.watching.server_timeout + 30
    settings.watching.chunk_size = 500
    for resource in (("batch", "v1", "jobs"), ("", "v1", "pods")):
        settings.watching.label_selectors[resource] = labels.OWN_OBJECTS
    settings.networking.connect_timeout = 10
    settings.networking.request_timeout = 30
    settings.networking.enforce_retry_after = True
