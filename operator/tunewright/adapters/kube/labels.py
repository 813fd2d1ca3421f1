"""Labels and annotations of our own objects. Never copied from the run: GitOps tools would prune copies."""

from tunewright.adapters.kube.names import RunReference
from tunewright.adapters.kube.spec.tuning_run import API_VERSION, KIND
from tunewright.trial_protocol.identity import TrialIdentity

MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGER = "tunewright"
RUN = "tunewright.dev/run"
COMPONENT = "tunewright.dev/component"
TRIAL = "tunewright.dev/trial"
ATTEMPT = "tunewright.dev/attempt"
TRIAL_KIND = "tunewright.dev/kind"
CONFIG_DIGEST = "tunewright.dev/config-digest"
VERDICT = "tunewright.dev/verdict"

OWN_OBJECTS = f"{MANAGED_BY}={MANAGER}"


def run_labels(run: RunReference, component: str) -> dict[str, str]:
    """Return the labels of any object of a run."""
    return {MANAGED_BY: MANAGER, RUN: run.name, COMPONENT: component}


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


def is_owned_by(document: dict[str, object], run: RunReference) -> bool:
    """Tell whether an object belongs to exactly this run, not to a deleted namesake."""
    metadata = document.get("metadata")
    references = metadata.get("ownerReferences") if isinstance(metadata, dict) else None
    return any(reference.get("uid") == run.uid for reference in references or ())
