"""Whether the operator may do what it will do, asked of the API server at start: a missing rule is named, not met.

Called by the controller's loop before anything else. What the chart grants is held against `NEEDED` by a test.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tunewright.adapters.kube.client import TUNING_RUNS, KubeClient, NotFound, Resource
from tunewright.adapters.kube.spec.tuning_run import GROUP, PLURAL
from tunewright.errors import Forbidden

Rule = Mapping[str, Any]

NEEDED: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (GROUP, PLURAL, ("get", "list", "watch")),
    (GROUP, f"{PLURAL}/status", ("patch",)),
    ("batch", "jobs", ("get", "list", "watch", "create", "patch", "delete")),
    ("", "pods", ("list", "watch")),
    ("", "configmaps", ("get", "list", "create", "patch")),
    ("", "services", ("get", "create")),
    ("", "events", ("list", "create")),
)
"""API group, resource and verbs in each namespace that is served. Nodes and Secrets are optional, and told apart."""

_REVIEWS = Resource("/apis/authorization.k8s.io/v1", "selfsubjectrulesreviews")
_ANY_NAMESPACE = "default"
"""Where rights in the whole cluster are looked at: they hold in every namespace."""


async def check_rights(client: KubeClient, namespaces: Sequence[str]) -> None:
    """Raise `Forbidden` naming every right that is missing in `namespaces`; without any, in the whole cluster."""
    missing = []
    for namespace in namespaces or (_ANY_NAMESPACE,):
        review = await client.create(_REVIEWS, "", {"spec": {"namespace": namespace}})
        where = f"in namespace {namespace}" if namespaces else "in the whole cluster"
        missing += [f"{right} {where}" for right in missing_rights(review["status"])]
    if missing:
        raise Forbidden(f"the operator may not {'; '.join(missing)}: grant it what the chart's roles grant")


async def is_served(client: KubeClient, namespaces: Sequence[str]) -> bool:
    """Tell whether the API server knows TuningRuns: their CRD may come after the operator."""
    try:
        await client.list(TUNING_RUNS, next(iter(namespaces), ""), fields="metadata.name=none")
    except NotFound:
        return False
    except Forbidden:
        return True  # `check_rights` tells what is missing
    return True


def missing_rights(status: Mapping[str, Any]) -> list[str]:
    """Return what a review's rules lack, such as ``create, patch jobs.batch``; nothing where the review is partial."""
    if status.get("incomplete"):
        return []
    rules: Sequence[Rule] = status.get("resourceRules") or ()
    found = []
    for group, resource, verbs in NEEDED:
        lacking = [verb for verb in verbs if not _is_granted(rules, group, resource, verb)]
        if lacking:
            found.append(f"{', '.join(lacking)} {resource}{f'.{group}' if group else ''}")
    return found


def _is_granted(rules: Iterable[Rule], group: str, resource: str, verb: str) -> bool:
    """Tell whether a rule grants a verb for all objects; one for named objects does not."""
    return any(
        not rule.get("resourceNames")
        and _covers(rule.get("apiGroups"), group)
        and _covers(rule.get("resources"), resource)
        and _covers(rule.get("verbs"), verb)
        for rule in rules
    )


def _covers(words: Sequence[str] | None, wanted: str) -> bool:
    return not {"*", wanted}.isdisjoint(words or ())
