"""Labels and annotations of our own objects. Never copied from the run: GitOps tools would prune copies."""

from collections.abc import Mapping
from typing import Any

from tunewright.adapters.kube.names import RunReference
from tunewright.adapters.kube.spec.tuning_run import API_VERSION, KIND
from tunewright.trial_protocol.identity import TrialIdentity

MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGER = "tunewright"
RUN = "tunewright.dev/run"
RUN_UID = "tunewright.dev/run-uid"
COMPONENT = "tunewright.dev/component"
TRIAL = "tunewright.dev/trial"
ATTEMPT = "tunewright.dev/attempt"
TRIAL_KIND = "tunewright.dev/kind"
CONFIG_DIGEST = "tunewright.dev/config-digest"
VERDICT = "tunewright.dev/verdict"
KEPT = "tunewright.dev/kept"
"""Annotation of what outlives its run on purpose."""
SUSPEND = "tunewright.dev/suspend"
"""Annotation on a TuningRun: suspends it whatever its spec says, or with the value false lets it go on."""

QUEUE = "kueue.x-k8s.io/queue-name"
"""Kueue's label on a Job: it lets the Job run when its LocalQueue has room."""

OWN_OBJECTS = f"{MANAGED_BY}={MANAGER}"


def run_labels(run: RunReference, component: str) -> dict[str, str]:
    """Return the labels of any object of a run."""
    return {MANAGED_BY: MANAGER, RUN: run.name, RUN_UID: run.uid, COMPONENT: component}


def trial_labels(run: RunReference, identity: TrialIdentity) -> dict[str, str]:
    """Return the labels of a trial's Job and Pods."""
    own = {TRIAL: identity.trial, ATTEMPT: str(identity.attempt), TRIAL_KIND: identity.kind}
    return run_labels(run, "trial") | own


def run_selector(run: RunReference, component: str) -> str:
    """Return the selector of one kind of object of a run."""
    return f"{OWN_OBJECTS},{RUN}={run.name},{COMPONENT}={component}"


def owner_reference(run: RunReference) -> dict[str, object]:
    """Return the reference that lets the garbage collector follow the run; it never blocks the run's deletion."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": run.name,
        "uid": run.uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }


def ownership(run: RunReference, *, keep: bool) -> dict[str, Any]:
    """Return the part of an object's metadata that ties it to its run, or lets it outlive the run."""
    if keep:
        return {"annotations": {KEPT: "true"}}
    return {"ownerReferences": [owner_reference(run)]}


def is_kept(document: Mapping[str, Any]) -> bool:
    """Tell whether an object outlives its run on purpose."""
    return (document["metadata"].get("annotations") or {}).get(KEPT) == "true"


def is_ours(document: Mapping[str, Any]) -> bool:
    """Tell whether an object was made by an operator of ours, for whichever run."""
    return bool((document["metadata"].get("labels") or {}).get(MANAGED_BY) == MANAGER)


def is_owned_by(document: Mapping[str, Any], run: RunReference) -> bool:
    """Tell whether an object belongs to exactly this run, not to a deleted namesake: by owner, or by label if kept."""
    metadata = document["metadata"]
    references = metadata.get("ownerReferences")
    if not references:
        return bool((metadata.get("labels") or {}).get(RUN_UID) == run.uid)
    return any(reference.get("uid") == run.uid for reference in references)
